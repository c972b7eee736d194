package archive

import "time"

// Repeats finds lines that an earlier file has too: what others have rotated may be copies. A journal that was begun
// again has newer lines with a lower seq.
type Repeats struct {
	last   uint64 // seq of the line before
	newest time.Time
	begins bool // a file does
}

// Begin says that the lines to come are of another file.
func (r *Repeats) Begin() { r.begins = true }

// Has reports whether a line, which was received at a time, is a repeat.
func (r *Repeats) Has(seq uint64, received time.Time) bool {
	if r.begins && seq <= r.last && !received.After(r.newest) {
		return true
	}
	r.begins, r.last = false, seq
	if received.After(r.newest) {
		r.newest = received
	}
	return false
}
