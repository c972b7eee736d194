package crash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Image knows what of a folder a power cut would leave. Everything that is there when it is made counts as durable.
// The plan of a traced program tells it of each operation, before and after.
type Image struct {
	folder string
	// grave holds the files that have lost their last name, by inode: a name that comes back needs its content.
	grave string

	names   map[string]uint64 // durable, with their inodes
	renamed []naming          // since the last sync of the folder
	files   map[uint64][]change

	// Of the operation under way.
	inode  uint64
	change *change
}

// naming is a change of names that is not durable yet.
type naming struct {
	remove string
	add    string
	inode  uint64 // of add
}

// change is a change to a file's content that is not durable yet.
type change struct {
	offset           int64
	before, after    []byte // from offset
	oldSize, newSize int64
	fate             fate
}

// fate is what a power cut does to a change.
type fate uint8

const (
	open    fate = iota // may be lost
	durable             // only where one before it is lost; else it is forgotten
	lost                // a sync said so; a later one does not bring it back
)

// NewImage makes an image of folder; grave is an empty folder on the same file system.
func NewImage(folder, grave string) (*Image, error) {
	m := &Image{folder: folder, grave: grave, files: make(map[uint64][]change)}
	var err error
	m.names, err = m.inodes(folder)
	return m, err
}

// inodes returns the names in a folder.
func (m *Image) inodes(folder string) (map[string]uint64, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list folder: %w", err)
	}
	names := make(map[string]uint64)
	for _, e := range entries {
		if names[e.Name()], err = inodeOf(filepath.Join(folder, e.Name())); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func inodeOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	return st.Ino, nil
}

// Begin is called before an operation is done.
func (m *Image) Begin(op *Operation) error {
	m.inode, m.change = 0, nil
	path := filepath.Join(m.folder, op.Path)
	var err error
	switch op.Kind {
	case Write, Allocate, Truncate:
		if op.file == "" {
			op.file = path // cut by openat
		}
		if m.inode, err = inodeOf(op.file); err != nil {
			return err
		}
		m.change = &change{offset: op.Offset}
		if op.Kind == Truncate {
			m.change.offset = op.Length
		}
		m.change.before, m.change.oldSize, err = tail(op.file, m.change.offset)
		if op.Kind == Write {
			m.change.before = m.change.before[:min(op.Length, int64(len(m.change.before)))]
		}
		if op.Kind == Allocate {
			m.change.offset, m.change.before = m.change.oldSize, nil
		}
	case Unlink:
		err = m.bury(path)
	case Rename:
		if m.inode, err = inodeOf(path); err != nil && errors.Is(err, fs.ErrNotExist) {
			return nil // it will fail
		}
		err = errors.Join(err, m.bury(filepath.Join(m.folder, op.To)))
	case Link, Sync:
		if m.inode, err = inodeOf(path); err != nil && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// bury keeps the file at path, if there is one, for as long as the image lives.
func (m *Image) bury(path string) error {
	inode, err := inodeOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = os.Link(path, m.buried(inode))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (m *Image) buried(inode uint64) string { return filepath.Join(m.grave, fmt.Sprint(inode)) }

// End is called after an operation was done, or made to fail.
func (m *Image) End(op *Operation) error {
	if op.Result < 0 {
		if op.Kind == Sync && op.Role != Folder && op.Result == -int64(unix.EIO) {
			m.settle(lost)
		}
		return nil
	}
	switch op.Kind {
	case Write, Allocate, Truncate:
		return m.changed(op)
	case Create:
		inode, err := inodeOf(filepath.Join(m.folder, op.Path))
		if err != nil {
			return err
		}
		m.renamed = append(m.renamed, naming{add: op.Path, inode: inode})
	case Link:
		m.renamed = append(m.renamed, naming{add: op.To, inode: m.inode})
	case Rename:
		m.renamed = append(m.renamed, naming{remove: op.Path, add: op.To, inode: m.inode})
	case Unlink:
		m.renamed = append(m.renamed, naming{remove: op.Path})
	case Sync:
		if op.Role != Folder {
			m.settle(durable)
			return nil
		}
		apply(m.names, m.renamed)
		m.renamed = nil
	}
	return nil
}

// settle decides over the open changes of the file that was synced. After an error the kernel takes pages that it could
// not write for clean, and the next sync has nothing to say of them.
func (m *Image) settle(as fate) {
	changes, anyLost := m.files[m.inode], false
	for i := range changes {
		if changes[i].fate == open {
			changes[i].fate = as
		}
		anyLost = anyLost || changes[i].fate == lost
	}
	if !anyLost {
		delete(m.files, m.inode)
	}
}

func (m *Image) changed(op *Operation) error {
	c := m.change
	after, size, err := tail(op.file, c.offset)
	if err != nil {
		return err
	}
	c.newSize = size
	if op.Kind == Write {
		c.after = after[:op.Result]
		c.before = c.before[:min(op.Result, int64(len(c.before)))]
	}
	m.files[m.inode] = append(m.files[m.inode], *c)
	return nil
}

// tail reads a file from offset on, and its size.
func tail(path string, offset int64) ([]byte, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("look at file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("look at file: %w", err)
	}
	b := make([]byte, max(0, info.Size()-offset))
	if _, err := io.ReadFull(io.NewSectionReader(f, offset, int64(len(b))), b); err != nil {
		return nil, 0, fmt.Errorf("look at file: %w", err)
	}
	return b, info.Size(), nil
}

func apply(names map[string]uint64, changes []naming) {
	for _, c := range changes {
		delete(names, c.remove)
		if c.add != "" {
			names[c.add] = c.inode
		}
	}
}

// Keep is what came to the disk although nothing asked for it.
type Keep struct {
	// Names is how many of n changes of names did; those happen in their order.
	Names func(n int) int
	// Change tells of each change of a file that no sync has decided over.
	Change func() bool
}

// Cut puts the folder back to what a power cut leaves. The program must have ended. The image is of no use afterwards.
func (m *Image) Cut(keep Keep) error {
	files, err := m.found()
	if err != nil {
		return err
	}
	apply(m.names, m.renamed[:keep.Names(len(m.renamed))])
	type content struct {
		data []byte
		mode fs.FileMode
	}
	left := make(map[string]content)
	contents := make(map[uint64]content)
	for name, inode := range m.names {
		if _, known := contents[inode]; !known {
			path := files[inode]
			info, err := os.Stat(path)
			if err != nil {
				return fmt.Errorf("look at %s: %w", name, err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			contents[inode] = content{surviving(data, m.files[inode], keep.Change), info.Mode().Perm()}
		}
		left[name] = contents[inode]
	}
	now, err := m.inodes(m.folder)
	if err != nil {
		return err
	}
	for name := range now {
		if err := os.Remove(filepath.Join(m.folder, name)); err != nil {
			return fmt.Errorf("put folder back: %w", err)
		}
	}
	for name, c := range left {
		if err := os.WriteFile(filepath.Join(m.folder, name), c.data, c.mode); err != nil {
			return fmt.Errorf("put folder back: %w", err)
		}
	}
	return nil
}

// found returns a path for each file that exists, with a name or without.
func (m *Image) found() (map[uint64]string, error) {
	files := make(map[uint64]string)
	for _, folder := range []string{m.grave, m.folder} {
		names, err := m.inodes(folder)
		if err != nil {
			return nil, err
		}
		for name, inode := range names {
			files[inode] = filepath.Join(folder, name)
		}
	}
	return files, nil
}

// surviving takes all changes of a file back, and then makes those again that are kept.
func surviving(data []byte, changes []change, kept func() bool) []byte {
	for _, c := range slices.Backward(changes) {
		data = resize(data, c.oldSize)
		copy(data[min(c.offset, c.oldSize):], c.before)
	}
	for _, c := range changes {
		switch {
		case c.fate == lost, c.fate == open && !kept():
		case c.after == nil:
			data = resize(data, c.newSize)
		default:
			data = resize(data, max(int64(len(data)), c.offset+int64(len(c.after))))
			copy(data[c.offset:], c.after)
		}
	}
	return data
}

// resize cuts data or makes it longer by zeros, as a file system does.
func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	return append(data[:len(data):len(data)], make([]byte, size-int64(len(data)))...)
}
