//go:build !amd64

package event

// findMarks sets the marks of b's first blocks, as many as out has room for.
func findMarks(b []byte, out []marks) (control, wide bool) { return findPlain(b, out) }
