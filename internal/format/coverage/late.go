package coverage

import "time"

// What counts as late. A line says by itself that it is late, by the server's clock and in whole seconds: see
// line.IsLate.
const (
	// LateAfter is how long what the server has done may wait for its line before that counts as late: more than a
	// watch takes that is opened again.
	LateAfter = 5 * time.Second
	// CatchingUp is how long after the end of a late interval lines may still be received that had waited.
	CatchingUp = 2 * LateAfter
	// Silence is for how long neither a pulse nor anything that was read has confirmed a stream that gets pulses, until
	// what is read next counts as late, and a reader takes it for not followed: the process or the server has stood
	// still. Pulses come every 4 seconds.
	Silence = 2 * LateAfter
)
