package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/disk"
	"kubejournal/internal/journal"
	"kubejournal/internal/recorder"
)

// fullPause is between two attempts of a start on a full disk.
const fullPause = 2 * time.Second

// startup is what a start is doing, for /readyz. Safe for concurrent use.
type startup struct {
	doing atomic.Pointer[func() string]
}

// set sets what the start is doing from now on; doing is called for each request.
func (s *startup) set(doing func() string) { s.doing.Store(&doing) }

// setText is set with a fixed text.
func (s *startup) setText(text string) { s.set(func() string { return text }) }

// err is why the daemon is not ready: it starts.
func (s *startup) err() error { return errors.New((*s.doing.Load())()) }

// withRoom repeats a step of the start while the disk is full: a daemon that has started would wait for space too.
func (d *Daemon) withRoom(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for logged := false; ; logged = true {
			err := step(ctx)
			if !isDiskFull(err) {
				return err
			}
			if !logged {
				d.Log.Error("the disk is full, waiting for space to start", zap.Error(err))
				if err := d.listen(ctx); err != nil {
					return err
				}
			}
			d.startup.setText("the disk is full, waiting for space: " + err.Error())
			if !pause(ctx, fullPause) {
				return err
			}
		}
	}
}

// isDiskFull looks at the words too: bbolt does not wrap what it could not do.
func isDiskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(err.Error(), syscall.ENOSPC.Error()))
}

func (d *Daemon) openOutput(context.Context) error {
	if d.cfg.Output.Path == config.Stdout {
		stdout := d.Stdout
		if f, ok := stdout.(*os.File); ok && wasClosed(f) {
			return errors.New("output.path: stdout is closed; open it, or name a file")
		}
		if d.Display != nil {
			stdout = d.Display(display{stdout})
		}
		d.output = journal.NewStdout(stdout)
		return nil
	}
	o := journalOptions(d.cfg.Output)
	o.Disk, o.Log, o.Failed = d.Disk, d.Log, func(error) { d.metrics.OutputErrors.Inc() }
	f, err := journal.OpenFile(d.cfg.Output.Path, o)
	if err != nil {
		return fmt.Errorf("output.path: %w%s", err, remedy(err))
	}
	d.output = f
	d.metrics.WatchFilesystem("output", filepath.Dir(f.Path()))
	return nil
}

// journalOptions is the part of a config that concerns the journal's files.
func journalOptions(o config.Output) journal.Options {
	return journal.Options{MaxSize: o.MaxSize, MaxAge: o.MaxAge, MaxFiles: o.MaxFiles, Compress: o.Compress}
}

// display is a stdout that people look at. It reports that it was closed as a pipe does: SIGHUP, by which other
// programs learn of it, does not end this one.
type display struct{ io.Writer }

func (d display) Write(p []byte) (int, error) {
	n, err := d.Writer.Write(p)
	if errors.Is(err, syscall.EIO) {
		err = errors.Join(io.ErrClosedPipe, err)
	}
	return n, err
}

// wasClosed reports whether a standard stream was closed when the process began: Go's runtime then opens /dev/null in
// its place, for reading and writing, and every line would seem to be written.
func wasClosed(f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return true
	}
	null, err := os.Stat(os.DevNull)
	if err != nil || !os.SameFile(is, null) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// openCheckpoint opens the checkpoint. A damaged one is set aside under another name, and what is lost with it shows in
// the journal as GAP lines.
func (d *Daemon) openCheckpoint(context.Context) error {
	path := d.cfg.Checkpoint.Path
	if path == "" {
		store, err := checkpoint.OpenTemp()
		if err != nil {
			return fmt.Errorf("checkpoint.path is empty, and none can be kept while it runs: %w; set TMPDIR to a folder that can be written, or name a file", err)
		}
		d.store = store
		return nil
	}
	store, err := checkpoint.Open(path)
	if errors.Is(err, checkpoint.ErrDamaged) {
		aside, asideErr := checkpoint.SetAside(path, time.Now())
		if asideErr != nil {
			return fmt.Errorf("checkpoint.path: %w: %w", err, asideErr)
		}
		d.Log.Error("checkpoint is damaged, beginning a new one", zap.Error(err), zap.String("kept", aside))
		store, err = checkpoint.Open(path)
	}
	if err != nil {
		return fmt.Errorf("checkpoint.path: %w%s", err, remedy(err))
	}
	d.store = store
	if err := store.OwnerError(); err != nil {
		d.Log.Warn(err.Error(), zap.String("path", store.Path()))
	}
	d.metrics.WatchFilesystem("checkpoint", filepath.Dir(store.Path()))
	if marked, err := store.Marked(); err != nil || marked {
		return err
	}
	// Also where an earlier start set it aside and came no further.
	lost, err := checkpoint.WasSetAside(path)
	if err == nil && lost {
		err = store.SetLost()
	}
	return err
}

// remedy is what a user can do about a file that cannot be opened.
func remedy(err error) string {
	switch {
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, disk.ErrLocked):
		return "; stop the other kubejournal, or name another file"
	case errors.Is(err, checkpoint.ErrNewerSchema):
		return "; run that version, or name another file"
	case errors.Is(err, fs.ErrNotExist):
		return "; create its folder, or name another file"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EISDIR):
		return "; name a file that can be written here"
	}
	return ""
}

// recover takes what a crash left in the journal into the checkpoint.
func (d *Daemon) recover(ctx context.Context) error {
	file, ok := d.output.(*journal.File)
	if !ok {
		mark, err := d.store.Mark()
		last := mark.LastFile()
		d.recording.Seq, d.recording.File = mark.Seq, &last
		return err
	}
	d.startup.set(func() string {
		passed, total := file.Progress()
		return fmt.Sprintf("recovering: read %s of %s", bytesOf(passed), bytesOf(total))
	})
	found, err := recorder.Recover(ctx, file, d.store)
	if other := new(recorder.ClusterError); errors.As(err, &other) {
		return fmt.Errorf("output.path: %s is the journal of another cluster (line %d: %s; this cluster is %s); name another output for this cluster, or its own",
			file.Path(), other.Seq, other.Journal, other.Checkpoint)
	}
	if err != nil {
		return err
	}
	d.recording.Seq = found.Seq
	d.metrics.LastCommit.SetToCurrentTime()
	logRecovery(d.Log.With(zap.String("path", file.Path())), found, file.LastSeq())
	return nil
}

// logRecovery logs what a recovery found that an operator should know of. lastSeq is the journal's own.
func logRecovery(log *zap.Logger, found recorder.Recovered, lastSeq uint64) {
	if found.Stdout > 0 {
		log.Warn("lines were written to stdout since the last write to this file; the file continues with its own seq",
			zap.Uint64("fileSeq", found.Seq), zap.Uint64("checkpointSeq", found.Stdout))
	}
	switch {
	case found.Lost:
		log.Warn("there is a journal but no checkpoint: each stream lists again and writes a GAP where it finds one")
	case found.Hole:
		log.Error("committed lines are missing, or this is another daemon's journal: each stream writes a GAP and reports every object again",
			zap.Uint64("fileSeq", lastSeq), zap.Uint64("checkpointSeq", found.Seq))
	case found.Misplaced:
		log.Warn("the last committed line is in a different file than when it was committed; if output.path belongs to another daemon, stop and give each its own",
			zap.Uint64("seq", found.Seq))
	case found.Gone > 0:
		log.Warn("lines that were written are not among the journal's files any more: they were moved away, removed or emptied",
			zap.Uint64("fromSeq", found.Seq-found.Gone+1), zap.Uint64("toSeq", found.Seq))
	}
	if found.Cut > 0 || found.Lines > 0 {
		log.Info("read back the journal's tail", zap.Int("lines", found.Lines), zap.Int64("cutBytes", found.Cut),
			zap.Uint64("seq", found.Seq), zap.Uint64("resumedAtSeq", found.Resumed))
	}
}

// bytesOf is a number of bytes for people.
func bytesOf(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "kB", "MB"} {
		if f < 1000 {
			return fmt.Sprintf("%.3g %s", f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.1f GB", f)
}
