package crash

import (
	"fmt"
	"strings"
	"syscall"
)

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Create   Kind = "create"   // a file that was not there
	Open     Kind = "open"     // one that was, by a call that would have created it
	Truncate Kind = "truncate" // or grown
	Allocate Kind = "allocate" // fallocate
	Write    Kind = "write"
	Sync     Kind = "sync" // fsync or fdatasync
	Rename   Kind = "rename"
	Link     Kind = "link"
	Unlink   Kind = "unlink"
	Mode     Kind = "chmod"
)

// Role is what a file is to the program.
type Role string

// The roles of files.
const (
	Journal    Role = "journal"    // the active file
	Rotated    Role = "rotated"    // plain
	Compressed Role = "gz"         // whole or under way
	Index      Role = "index"      // of a rotated file, whole or under way
	Checkpoint Role = "checkpoint" // under its own name or a temporary one
	Coverage   Role = "coverage"   // whole or under way
	Documents  Role = "documents"  // of the API, whole or under way
	Note       Role = "note"       // of who writes to journal or checkpoint
	Folder     Role = "folder"
	Other      Role = "other"
)

// The names of the files in the folder, from which their roles follow.
const (
	JournalName    = "journal.jsonl"
	CheckpointName = "checkpoint.db"
	CoverageName   = JournalName + ".coverage"
	DocumentsName  = JournalName + ".api"

	indexSuffix = ".jsonl.index"
)

// roleOf returns the role of a file by its name in the folder.
func roleOf(name string) Role {
	switch {
	case name == ".":
		return Folder
	case strings.HasSuffix(name, ".owner"):
		return Note
	case name == JournalName:
		return Journal
	case strings.Contains(name, CoverageName):
		return Coverage
	case strings.Contains(name, DocumentsName):
		return Documents
	case strings.Contains(name, indexSuffix):
		return Index
	case strings.Contains(name, ".gz"):
		return Compressed
	case strings.HasPrefix(name, "journal-") && strings.HasSuffix(name, ".jsonl"):
		return Rotated
	case strings.Contains(name, CheckpointName):
		return Checkpoint
	}
	return Other
}

// Operation is one durable step of the program.
type Operation struct {
	N    int // from 1
	Kind Kind
	Role Role   // of Path
	Path string // in the folder; "." is the folder
	To   string // the new name of Rename and Link

	Offset int64 // of Write
	Length int64 // of Write; the new size for Truncate, the end for Allocate

	// Result is what the call returned, or would have without the plan: -errno after a failure.
	Result int64

	file string // a path by which the tracer reaches the file, also when it has no name any more; "" without one
}

func (o *Operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s %s", o.N, o.Kind, o.Role, o.Path)
	if o.To != "" {
		fmt.Fprintf(&b, " -> %s", o.To)
	}
	if o.Kind == Write {
		fmt.Fprintf(&b, " [%d+%d]", o.Offset, o.Length)
	}
	if o.Kind == Truncate || o.Kind == Allocate {
		fmt.Fprintf(&b, " %d", o.Length)
	}
	if o.Result < 0 {
		fmt.Fprintf(&b, ": %s", syscall.Errno(-o.Result))
	}
	return b.String()
}

// Verdict is what a plan does to an operation. Kill goes before the rest.
type Verdict struct {
	Kill bool
	// Fail is the error to return; at the begin of an operation it is then not done.
	Fail syscall.Errno
	// Short is how many bytes of a write are done, at its begin; 0 leaves it whole.
	Short int64
}

// Plan decides over operations. It is called by one goroutine, which the program waits for.
type Plan interface {
	Begin(*Operation) Verdict // before it is done
	End(*Operation) Verdict   // after it is done or was made to fail; not after a Kill
}
