package faultdisk

import (
	"io/fs"

	"kubejournal/internal/disk"
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
