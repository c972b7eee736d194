package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
func Summarize(path string) (*Summary, error) {
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

// ForgetIn forgets one stream of the checkpoint at path and returns what it was. To forget it again changes nothing.
func ForgetIn(path, name string) (was StreamSummary, err error) {
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
