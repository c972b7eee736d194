package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"kubejournal/internal/host/terminal"
)

// Summary is what a checkpoint holds, in the form in which 'kubejournal checkpoint show -o json' writes it.
type Summary struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"` // bytes
	Cluster string `json:"cluster,omitempty"`
	Schema  uint64 `json:"schema"`
	Lost    bool   `json:"lost,omitempty"` // an earlier one was
	Journal Mark   `json:"journal"`
	// seq up to which a start had read the journal back when it was interrupted
	Recovered uint64          `json:"recovered,omitempty"`
	Streams   []StreamSummary `json:"streams"` // in the order of their names
}

// StreamSummary is one stream of a Summary.
type StreamSummary struct {
	Stream          string `json:"stream"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	State           string `json:"state"`            // synced, first sync, gap owed, gap open or reset
	Reason          string `json:"reason,omitempty"` // of the gap that is owed
	Gap             *Gap   `json:"gap,omitempty"`    // the open one
	Known           int    `json:"known"`            // objects
}

// Summarize returns what the checkpoint at path holds. The file is not locked any more then.
func Summarize(path string) (_ *Summary, err error) {
	defer func() { err = explain(path, err) }()
	s, err := OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // only read from
	var (
		sum      = &Summary{Path: path}
		recovery Recovery
		errs     [7]error
	)
	sum.Size, errs[0] = s.Size()
	sum.Cluster, errs[1] = s.Cluster()
	sum.Schema, errs[2] = s.Schema()
	sum.Lost, errs[3] = s.Lost()
	sum.Journal, errs[4] = s.Mark()
	recovery, _, errs[5] = s.Recovery()
	sum.Recovered = recovery.Mark.Seq
	sum.Streams, errs[6] = s.summarizeStreams()
	return sum, cmp.Or(errs[:]...)
}

// WriteText shows a checkpoint, then its streams as a table.
func (c *Summary) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	journal := "-"
	if c.Journal.Seq > 0 {
		journal = fmt.Sprintf("committed up to seq %d", c.Journal.Seq)
	}
	fmt.Fprintf(t, "path\t%s\nsize\t%d bytes\nschema\t%d\ncluster\t%s\njournal\t%s\n", terminal.Line(c.Path), c.Size,
		c.Schema, terminal.Line(cmp.Or(c.Cluster, "-")), journal)
	if c.Recovered > 0 {
		fmt.Fprintf(t, "recovery\tinterrupted at seq %d; the next start continues there\n", c.Recovered)
	}
	if c.Lost {
		fmt.Fprintln(t, "lost\tan earlier checkpoint was; a stream that is new in this one begins with a GAP line")
	}
	if len(c.Streams) == 0 {
		fmt.Fprintln(t, "\nno streams yet")
		return t.Flush()
	}
	fmt.Fprintln(t, "\nSTREAM\tPOSITION\tSTATE\tKNOWN")
	for _, s := range c.Streams {
		state := s.State
		switch {
		case s.Reason != "":
			state += ": " + s.Reason
		case s.Gap != nil:
			state += fmt.Sprintf(": %s to %s", cmp.Or(s.Gap.FromResourceVersion, "-"), s.Gap.ResourceVersion)
		}
		fmt.Fprintln(t, terminal.Cells(s.Stream, cmp.Or(s.ResourceVersion, "-"), state, strconv.Itoa(s.Known)))
	}
	return t.Flush()
}

// ForgetIn forgets one stream of the checkpoint at path and returns what it was. To forget it again changes nothing.
func ForgetIn(path, name string) (was StreamSummary, err error) {
	defer func() { err = explain(path, err) }()
	s, err := OpenExisting(path)
	if err != nil {
		return was, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	streams, err := s.summarizeStreams()
	if err != nil {
		return was, err
	}
	var names []string
	for _, stream := range streams {
		if stream.Stream == name {
			return stream, s.Forget(name)
		}
		names = append(names, stream.Stream)
	}
	return was, fmt.Errorf("checkpoint %s has no stream %q; it has %s", path, name,
		cmp.Or(strings.Join(names, ", "), "none at all"))
}

// summarizeStreams returns every stream that the checkpoint has anything of.
func (s *Store) summarizeStreams() ([]StreamSummary, error) {
	states, errStates := s.Streams()
	forgotten, errForgotten := s.Forgotten()
	knowing, err := s.Knowing()
	if err := cmp.Or(errStates, errForgotten, err); err != nil {
		return nil, err
	}
	all := []StreamSummary{}
	names := slices.Concat(knowing, slices.Collect(maps.Keys(states)), slices.Collect(maps.Keys(forgotten)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		state, written := states[name]
		one := StreamSummary{Stream: name, ResourceVersion: state.ResourceVersion, Reason: string(state.PendingGap),
			Gap: state.Open}
		if one.Known, err = s.Count(name); err != nil {
			return nil, err
		}
		switch {
		case one.Reason != "":
			one.State = "gap owed"
		case one.Gap != nil:
			one.State = "gap open"
		case one.ResourceVersion != "":
			one.State = "synced"
		case forgotten[name] && !written && one.Known == 0:
			one.State = "reset"
		default:
			one.State = "first sync"
		}
		all = append(all, one)
	}
	return all, nil
}

// explain adds to the error of opening a checkpoint what can be done about it.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, ErrLocked):
		return fmt.Errorf("checkpoint %s is held by a running kubejournal; 'kubejournal status' shows its streams, "+
			"as does /streams on its listen address", path)
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("%w; the next run sets it aside and begins a new one, with a GAP line for each stream", err)
	case errors.Is(err, ErrNewerSchema):
		return fmt.Errorf("%w; use that version", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("checkpoint %s: no such file", path)
	}
	return err
}
