package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Shared is a folder in which every user may make files, as in /tmp. What another user has made there may be a trap:
// a file that its owner keeps reading and writing, or one that holds what never happened. Of a folder that is not,
// who may write to it has been decided by its owner, and whose the files in it are says nothing: a volume with
// fsGroup, a folder that root has prepared, a copy. The methods of nil, which is such a folder, find nothing.
type Shared struct {
	dir   string
	probe *probe // nil until it is needed
}

// probe is how a file comes out that this process makes in a folder. Where a volume gives all files one owner or one
// mode (CIFS, NFS with all_squash), that is not what this process asks for.
type probe struct {
	uid      uint32
	writable bool // for everybody
}

// SharedFolder returns nil for a folder that not everybody may write to, or that cannot be looked at.
func SharedFolder(dir string) *Shared {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o002 == 0 {
		return nil
	}
	return &Shared{dir: dir}
}

// Foreign says why a file in the folder may be somebody else's; "" where it is of this process's user, or of root.
func (s *Shared) Foreign(info fs.FileInfo) string {
	if s == nil || info == nil {
		return ""
	}
	uid, ok := OwnerOf(info)
	if !ok {
		return ""
	}
	other, open := uid != 0 && int(uid) != os.Geteuid(), info.Mode().IsRegular() && info.Mode().Perm()&0o002 != 0
	if !other && !open {
		return ""
	}
	usual := s.usual()
	switch {
	case other && uid != usual.uid:
		return fmt.Sprintf("it belongs to user %d, not to this process's user %d, in a folder that everybody may "+
			"write to",
			uid, os.Geteuid())
	case open && !usual.writable:
		return fmt.Sprintf("everybody may write to it (mode %#o), and to its folder", info.Mode().Perm())
	}
	return ""
}

// usual returns how a file comes out here. Where none can be made, it is as this process asks for.
func (s *Shared) usual() probe {
	if s.probe != nil {
		return *s.probe
	}
	p := probe{uid: uint32(os.Geteuid())} //nolint:gosec // never negative
	if f, err := os.CreateTemp(s.dir, ".kubejournal-*"); err == nil {
		forget := NoteTemporary(f.Name())
		if info, err := f.Stat(); err == nil {
			if uid, ok := OwnerOf(info); ok {
				p = probe{uid: uid, writable: info.Mode().Perm()&0o002 != 0}
			}
		}
		_ = f.Close() // nothing was written
		_ = os.Remove(f.Name())
		forget()
	}
	s.probe = &p
	return p
}

// OwnerOf returns the user that a file belongs to.
func OwnerOf(info fs.FileInfo) (uid uint32, ok bool) {
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return of.Uid, true
}

// CheckForeign returns an error, with its remedy, where the file at path may be somebody else's. There need not be one.
func CheckForeign(path string, info fs.FileInfo) error {
	why := SharedFolder(filepath.Dir(path)).Foreign(info)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s may be somebody else's: %s; nothing was written; name a file in a folder of this user alone,"+
		" or, if it is the right one, run as root: chown %d FILE; chmod o-w FILE", path, why, os.Geteuid())
}
