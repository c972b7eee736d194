package object

import (
	"errors"

	"kubejournal/internal/format/rawjson"
)

// ErrTooLarge is wrapped, with both sizes, when a value exceeds its limit.
var ErrTooLarge = errors.New("value too large")

// SyntaxError says where bytes are not the JSON that was expected.
type SyntaxError = rawjson.SyntaxError

// The limits of what is written. Every reader of lines has the same ones, and so reads all that may be written.
const (
	// MaxObject bounds an object as the server sends it, in bytes. etcd takes 1.5 MiB by default, aggregated servers
	// may have more.
	MaxObject = 64 << 20
	// aroundObject is how many levels of a line there may be around an object, which is deepest in the list of
	// changes: {"changes":[{"old":{}}]}. The line is bounded by rawjson.MaxDepth.
	aroundObject = 3
	// maxName bounds each of the strings that name an object and its version, and those that name who wrote it, in
	// bytes.
	maxName = 4 << 10
)
