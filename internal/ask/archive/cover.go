package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// Coverage returns from when to when the streams were watched whose objects may be selected, in the order of their
// names. The error says why nothing is known, as coverage.Read's does.
func (j *Journal) Coverage(s *argument.Selection) ([]coverage.Stream, error) {
	streams, err := j.AllCoverage()
	if err != nil {
		return nil, err
	}
	var all []coverage.Stream
	for _, c := range streams {
		if s.MayHave(c.Name) {
			all = append(all, c)
		}
	}
	return all, nil
}

// OneResource reports whether all objects that may be selected are known to be of one resource.
func (j *Journal) OneResource(s *argument.Selection) bool {
	streams, err := j.Coverage(s)
	resources := make(map[string]bool)
	for _, stream := range streams {
		resources[line.ParseStreamName(stream.Name).Resource] = true
	}
	return err == nil && len(resources) == 1
}

// Held is a stream whose entry in the config kept changes out of the journal.
type Held struct {
	Stream string
	Keys   []string // of the entry, as coverage.HoldingBack has them
	// Since is, of several replicas' journals, when one of them has last confirmed anything, if that is so long ago
	// that a replica whose journal is not named may have taken over; else zero.
	Since time.Time
}

// OfEvents reports whether the stream has Events and nothing else, and no replica's lines are missing.
func (h *Held) OfEvents() bool {
	resource := line.ParseStreamName(h.Stream).Resource
	return (resource == "events" || resource == "events.events.k8s.io") && h.Since.IsZero() &&
		!slices.Contains(h.Keys, coverage.LeaderElection)
}

// HeldBack returns the streams whose objects may be selected, and whose entries have held changes back between two
// moments, each of which may be zero: an object may have been another one than its last line says. Where there is no
// coverage, nothing is known of it.
func (j *Journal) HeldBack(s *argument.Selection, since, until argument.Moment) (all []Held) {
	streams, _ := j.Coverage(s)
	for _, stream := range streams {
		var keys []string
		for _, in := range stream.Intervals {
			if !since.Time.After(in.To) && (until.Time.IsZero() || !until.Time.Before(in.From)) {
				keys = append(keys, in.HeldBack...)
			} else if slices.Contains(in.HeldBack, coverage.LeaderElection) {
				keys = append(keys, coverage.LeaderElection) // another replica wrote whenever this one did not
			}
		}
		held := Held{Stream: stream.Name}
		if last := j.confirmed[line.ParseStreamName(stream.Name).Shard]; last.over() {
			held.Since = last.at
		}
		if len(keys) > 0 || !held.Since.IsZero() {
			slices.Sort(keys)
			held.Keys = slices.Compact(keys)
			all = append(all, held)
		}
	}
	return all
}

// AllCoverage returns the coverage of all streams. The coverage file is read once.
func (j *Journal) AllCoverage() ([]coverage.Stream, error) {
	if j.record != nil {
		segments := make([]segment.Segment, len(j.Segments))
		for i, s := range j.Segments {
			segments[i] = s.Segment
		}
		for _, first := range j.record.Missing(segments) {
			j.lostFiles = append(j.lostFiles, j.lostFile(first))
		}
		j.coverage, j.uncovered = j.record.Streams(segments)
		j.record = nil
	}
	if errors.Is(j.uncovered, fs.ErrNotExist) {
		j.uncovered = errNoCoverage
	}
	return j.coverage, j.uncovered
}

// SetCoverage says when streams were watched, in the place of the coverage file.
func (j *Journal) SetCoverage(streams []coverage.Stream) {
	j.coverage, j.uncovered, j.record = streams, nil, nil
}

// LostFiles says of each file that the coverage file knows and that is not there, or begins otherwise, that it is lost.
// Coverage leaves out what was covered in it.
func (j *Journal) LostFiles() []string {
	_, _ = j.AllCoverage() // which reports by itself why it is not known
	return j.lostFiles
}

// lostFile says which file is lost, by its first line.
func (j *Journal) lostFile(first uint64) string {
	for _, s := range j.Segments {
		if s.FirstSeq == first {
			return s.Path + " is damaged: it begins otherwise than it did"
		}
	}
	return fmt.Sprintf("the file of %s that begins with line %d is missing or cannot be read", j.path, first)
}

var errNoCoverage = errors.New(
	"the journal has no coverage file, so nothing says from when to when streams were watched",
)
