package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kubejournal/internal/disk"
)

// WasSetAside reports whether a damaged predecessor of the file at path is beside it.
func WasSetAside(path string) (bool, error) {
	path = follow(path)
	kept, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(path)), escapeGlob(filepath.Base(path))+asideInfix+"*"))
	if err != nil {
		return false, fmt.Errorf("find damaged checkpoints: %w", err)
	}
	return len(kept) > 0, nil
}

// escapeGlob escapes the special characters of a pattern.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// asideInfix is between the name of a damaged file and the time.
const asideInfix = ".damaged-"

// SetAside renames a file that cannot be used and returns its new name. A crash
// leaves it under one name or the other.
func SetAside(path string, now time.Time) (kept string, err error) {
	path = follow(path)
	kept = path + asideInfix + now.UTC().Format("2006-01-02T15-04-05.000")
	if err := os.Rename(path, kept); err != nil {
		return "", fmt.Errorf("set checkpoint aside: %w", err)
	}
	return kept, disk.OS.SyncDir(filepath.Dir(path))
}

// removeTemp removes a file that nobody reads; one that stays does no harm.
func removeTemp(path string) { _ = os.Remove(path) }
