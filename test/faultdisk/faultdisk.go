// Package faultdisk is a disk.FS for tests: it numbers each operation that
// changes something, lets a test decide what becomes of it, and remembers what a
// power cut would leave.
package faultdisk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"kubejournal/internal/host/disk"
)

// Errors that operations return.
var (
	ErrKilled   = errors.New("killed")
	ErrInjected = fmt.Errorf("injected: %w", syscall.EIO)
)

// Kind is what an operation does.
type Kind string

// The kinds that are numbered.
const (
	Create   Kind = "create" // open with O_CREATE or O_TRUNC
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
)

// Op is one operation.
type Op struct {
	N    int // from 1
	Kind Kind
	Path string // of a rename the old one
	Size int    // bytes to write
}

// Fault is what becomes of an operation.
type Fault int

// The faults. After the two kills nothing reaches the disk any more.
const (
	None          Fault = iota
	Fail                // ErrInjected, nothing was done
	FailPersisted       // ErrInjected, all was done
	Half                // a write: ErrInjected after half of it; any other: Fail
	KillBefore          // ErrKilled, nothing was done
	KillAfter           // ErrKilled, all was done
	KillHalf            // a write: ErrKilled after half of it; any other: KillBefore
)

// Faults is all but None.
var Faults = []Fault{Fail, FailPersisted, Half, KillBefore, KillAfter, KillHalf}

func (f Fault) String() string {
	return [...]string{"none", "fail", "fail persisted", "half", "kill before", "kill after", "kill half"}[f]
}

// Kills reports whether nothing follows a fault.
func (f Fault) Kills() bool { return f >= KillBefore }

// Disk is a disk.FS on the operating system's. Safe for concurrent use.
type Disk struct {
	mu     sync.Mutex
	decide func(Op) Fault // guarded by mu
	n      int            // guarded by mu
	dead   bool           // guarded by mu
	// What a power cut leaves: of each file what its last Sync saw, under the
	// names that the last SyncDir of their folder saw; guarded by mu.
	content map[uint64][]byte            // by inode
	names   map[string]map[string]uint64 // folder -> name -> inode
	// open, so that no new file gets the inode of one that a power cut may bring back
	removed []*os.File
}

// New returns a disk that asks decide, one operation at a time, what becomes of
// each; nil is nothing.
func New(decide func(Op) Fault) *Disk {
	return &Disk{decide: decide, content: make(map[uint64][]byte), names: make(map[string]map[string]uint64)}
}

// Kill lets nothing reach the disk any more.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// Ops is the number of operations until now.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// alive guards what changes nothing.
func (d *Disk) alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return ErrKilled
	}
	return nil
}

// do numbers an operation and does it, or what the fault leaves of it. half is
// nil where there is no half of it. After it was done, keep notes what lasts.
func (d *Disk) do(op Op, whole, half func() error, keep func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return ErrKilled
	}
	d.n++
	op.N = d.n
	fault := None
	if d.decide != nil {
		fault = d.decide(op)
	}
	d.dead = fault.Kills()
	var err error
	switch fault {
	case None, FailPersisted, KillAfter:
		if err = whole(); err == nil && keep != nil {
			err = keep()
		}
	case Half, KillHalf:
		if half != nil {
			err = half()
		}
	}
	switch {
	case d.dead:
		return errors.Join(err, ErrKilled)
	case fault != None:
		return errors.Join(err, fmt.Errorf("%s %s: %w", op.Kind, filepath.Base(op.Path), ErrInjected))
	}
	return err
}

// OpenFile implements disk.FS.
func (d *Disk) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	var f disk.File
	open := func() (err error) {
		f, err = disk.OS.OpenFile(path, flag, mode)
		return err
	}
	err := d.alive()
	if _, statErr := os.Stat(path); err == nil && flag&os.O_TRUNC == 0 && (flag&os.O_CREATE == 0 || statErr == nil) {
		err = open()
	} else if err == nil {
		err = d.do(Op{Kind: Create, Path: path}, open, nil, func() error {
			info, err := f.Stat()
			if err == nil {
				delete(d.content, inode(info)) // of a file that is gone
			}
			return err
		})
	}
	if err != nil {
		if f != nil {
			_ = f.Close() // made all the same
		}
		return nil, err
	}
	return &file{File: f, disk: d, path: path}, nil
}

// Stat implements disk.FS.
func (d *Disk) Stat(path string) (fs.FileInfo, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return disk.OS.Stat(path)
}

// ReadDir implements disk.FS.
func (d *Disk) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return disk.OS.ReadDir(path)
}

// Rename implements disk.FS.
func (d *Disk) Rename(from, to string) error {
	return d.do(Op{Kind: Rename, Path: from}, func() error { d.hold(to); return disk.OS.Rename(from, to) }, nil, nil)
}

// Remove implements disk.FS.
func (d *Disk) Remove(path string) error {
	return d.do(Op{Kind: Remove, Path: path}, func() error { d.hold(path); return disk.OS.Remove(path) }, nil, nil)
}

// hold keeps the inode of a file that is about to lose its name.
func (d *Disk) hold(path string) {
	if f, err := os.Open(path); err == nil {
		d.removed = append(d.removed, f)
	}
}

// nothing stands for a sync: what it would bring is in content and names, and
// the tests that use this have no time for the real one.
func nothing() error { return nil }

// SyncDir implements disk.FS.
func (d *Disk) SyncDir(path string) error {
	return d.do(Op{Kind: SyncDir, Path: path}, nothing, nil, func() error {
		names, err := inodes(path)
		d.names[filepath.Clean(path)] = names
		return err
	})
}

type file struct {
	disk.File
	disk *Disk
	path string
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.disk.alive(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	part := func(size int) func() error {
		return func() (err error) {
			n, err = f.File.WriteAt(p[:size], off)
			return err
		}
	}
	err = f.disk.do(Op{Kind: Write, Path: f.path, Size: len(p)}, part(len(p)), part(len(p)/2), nil)
	if err != nil && n == len(p) {
		n = 0 // it failed, as far as the caller can know
	}
	return n, err
}

func (f *file) Truncate(size int64) error {
	return f.disk.do(Op{Kind: Truncate, Path: f.path}, func() error { return f.File.Truncate(size) }, nil, nil)
}

func (f *file) Sync() error {
	return f.disk.do(Op{Kind: Sync, Path: f.path}, nothing, nil, func() error {
		info, err := f.File.Stat()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.NewSectionReader(f.File, 0, info.Size()))
		f.disk.content[inode(info)] = content
		return err
	})
}

func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.disk.alive(); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// PowerCut makes the folder what it is after one: names as of its last SyncDir,
// each with the content of the file's last Sync. With zeros, a file keeps the
// size that it had, and zeros stand where nothing was synced. It is for a disk
// that was killed.
func (d *Disk) PowerCut(folder string, zeros bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := inodes(folder)
	if err != nil {
		return err
	}
	sizes := make(map[uint64]int64)
	for name, ino := range now {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		sizes[ino] = info.Size()
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	for name, ino := range d.names[filepath.Clean(folder)] {
		content := d.content[ino]
		if more := sizes[ino] - int64(len(content)); zeros && more > 0 {
			content = append(content[:len(content):len(content)], make([]byte, more)...)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o640); err != nil {
			return err
		}
	}
	return nil
}

// inodes are the files of a folder.
func inodes(folder string) (map[string]uint64, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	all := make(map[string]uint64)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			all[e.Name()] = inode(info)
		}
	}
	return all, nil
}

func inode(info fs.FileInfo) uint64 {
	stat, _ := info.Sys().(*syscall.Stat_t) // of the operating system's own files it always is
	return stat.Ino
}
