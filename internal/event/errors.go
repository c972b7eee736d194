package event

import (
	"errors"

	"kubejournal/internal/rawjson"
)

// ErrTooLarge is wrapped, with both sizes, when a value exceeds its limit.
var ErrTooLarge = errors.New("value too large")

// SyntaxError says where bytes are not the JSON that was expected. It never quotes
// an object, which may be a Secret.
type SyntaxError = rawjson.SyntaxError
