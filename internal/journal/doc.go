// Package journal appends lines to the output and reads back its tail.
//
// The output is a file or a stream (stdout). Of a file the journal guarantees:
//
//   - a line is written once, at the end; what has been written never changes
//     or vanishes, but for a last line without its end (torn by a crash), which
//     ReadBack cuts off before anything is appended;
//   - one process appends to it at a time (flock; readers are not hindered);
//   - after a failed or partial write the next Write begins behind what is known
//     to stand, over what may stand beyond it with the same bytes, so that no
//     line ever begins in the middle of another.
//
// The package knows lines as bytes that end in "\n", and the seq at their
// beginning; what they mean is package event's.
package journal
