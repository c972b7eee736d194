package argument

import (
	"fmt"
	"strings"
)

// UnknownError says that the journal has nothing of a name.
type UnknownError struct {
	Unwatched  bool   // it may have been there, and nobody watched
	NoResource bool   // the name is that of no resource that is known of
	Text       string // without a full stop
}

func (e *UnknownError) Error() string { return e.Text }

// Unknownf returns the error for a name.
func Unknownf(format string, args ...any) *UnknownError {
	return &UnknownError{Text: fmt.Sprintf(format, args...)}
}

// NobodyWatched is the error for a resource that may have been there. What may be meant instead follows.
func NobodyWatched(resource, meant string) *UnknownError {
	return &UnknownError{
		Unwatched: true, Text: fmt.Sprintf("the journal has no line about %s: nobody watched them%s", resource, meant),
	}
}

// Some lists the first of some names.
func Some(names []string) string {
	const few = 8
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
