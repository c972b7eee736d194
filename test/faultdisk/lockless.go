package faultdisk

import (
	"io/fs"

	"kubejournal/internal/host/disk"
)

// WithoutLocks returns a file system on which locks do nothing, as on some network
// and FUSE volumes.
func WithoutLocks(on disk.FS) disk.FS { return lockless{on} }

type lockless struct{ disk.FS }

func (d lockless) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return unlocked{f}, nil
}

type unlocked struct{ disk.File }

func (unlocked) Lock() error { return nil }

// RefusingLocks returns a file system that answers each lock with err, as a network volume without a lock service does.
func RefusingLocks(on disk.FS, err error) disk.FS { return refusing{on, err} }

type refusing struct {
	disk.FS
	err error
}

func (d refusing) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return refused{f, d.err}, nil
}

type refused struct {
	disk.File
	err error
}

func (f refused) Lock() error { return disk.LockError(f.err) }
