package disk

import (
	"os"
	"sync"
)

// temporaries are the temporary files and folders of this process that have a name.
var temporaries = struct {
	sync.Mutex
	paths map[string]bool
}{paths: make(map[string]bool)}

// NoteTemporary notes a temporary file or folder, for RemoveTemporaries. forget is called once it is removed or
// renamed.
func NoteTemporary(path string) (forget func()) {
	temporaries.Lock()
	defer temporaries.Unlock()
	temporaries.paths[path] = true
	return func() {
		temporaries.Lock()
		defer temporaries.Unlock()
		delete(temporaries.paths, path)
	}
}

// RemoveTemporaries removes what was noted, for a process that ends without waiting for what works with it.
func RemoveTemporaries() {
	temporaries.Lock()
	defer temporaries.Unlock()
	for path := range temporaries.paths {
		for range 3 { // a file may be made in a folder meanwhile
			if os.RemoveAll(path) == nil {
				break
			}
		}
		delete(temporaries.paths, path)
	}
}
