package event

import (
	"errors"
	"fmt"
)

// ErrTooLarge is wrapped, with both sizes, when a value exceeds its limit.
var ErrTooLarge = errors.New("value too large")

// SyntaxError tells where bytes are not the JSON that was expected. It never
// quotes an object, which may be a Secret.
type SyntaxError struct {
	Offset int64 // bytes before the fault
	Msg    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.Msg, e.Offset)
}

// tooDeep is the fault of what exceeds maxDepth.
const tooDeep = "nested too deep"

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: over %d bytes, limit %d", ErrTooLarge, size, limit)
}
