package rawjson

import "golang.org/x/sys/cpu"

// findMarks sets the marks of b's first blocks, as many as out has room for.
func findMarks(b []byte, out []marks) (control, wide bool) {
	if !cpu.X86.HasAVX2 {
		return findPlain(b, out)
	}
	if len(out) == 0 {
		return false, false
	}
	_ = b[len(out)*blockSize-1]
	c, w := findAVX2(&b[0], len(out), &out[0])
	return c != 0, w != 0
}

// findAVX2 is findPlain for len(out) blocks at b, 32 bytes at a time.
//
//go:noescape
func findAVX2(b *byte, blocks int, out *marks) (control, wide uint32)
