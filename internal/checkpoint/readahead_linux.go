package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// readAhead asks the system to read all of a file, in its order, while the walk
// over the tree begins: after many commits the pages of the tree lie anywhere,
// and one read for each of them is what a start from a cold disk would wait for.
// It costs little where the file is in the page cache. What fails here, the walk
// finds.
func readAhead(f *os.File, size int64) {
	const chunk = 128 << 10 // more than its read-ahead window the kernel cuts off
	for at := int64(0); at < size; at += chunk {
		if unix.Fadvise(int(f.Fd()), at, chunk, unix.FADV_WILLNEED) != nil {
			return
		}
	}
}
