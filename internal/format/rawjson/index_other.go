//go:build !amd64

package rawjson

// findMarks sets the marks of b's first blocks, as many as out has room for, and reports whether there are control
// characters and bytes beyond ASCII.
func findMarks(b []byte, out []marks) (control, wide bool) { return findPlain(b, out) }
