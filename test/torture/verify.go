package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// proof is what a journal turned out to be.
type proof struct {
	fault     error // nil where everything holds
	lines     int
	rotations int
	bytes     int            // of all lines
	gaps      map[string]int // by reason
	synced    int            // SYNCED lines
	hidden    int            // lines of a list outside of a GAP and of a first sync
	net       int            // acknowledged writes that were overtaken in a GAP or a first sync
	lost      int
	changes   int // lists of what changed, which were applied to the object before
	repeated  int // in a file: all; on stdout: those from before the checkpoint interval

	again  int           // on stdout, and over takeovers: lines written again
	oldest time.Duration // the longest time between such a line and the kill after it
	older  int           // over takeovers, those that the leader should have published
	// Of again, the lines from before a takeover at which the API server was disturbed.
	unpublished       int
	oldestUnpublished time.Duration
}

func (p proof) String() string {
	return fmt.Sprintf("%d lines, %d lists of changes applied, %d rotations, %d GAPs, %d lost, %d repeated, %d hidden",
		p.lines, p.changes, p.rotations, sum(p.gaps), p.lost, p.repeated, p.hidden)
}

// verify reads all that the daemon has written. It must be down, and the writers at rest.
func (b *bench) verify(ctx context.Context, d *daemon) (proof, error) {
	var (
		lines []invariant.Line
		p     proof
	)
	if d.pipe {
		lines, p = merge(d.told, b.options.interval)
	} else {
		var whole bool
		if lines, whole = p.read(d.journal(), true); !whole {
			return p, nil // that is a finding, and there is nothing to look into
		}
	}
	if !d.pipe {
		p.fault = errors.Join(p.fault, invariant.Sequence(lines, 1), invariant.Unique(lines))
	}
	err := b.judge(ctx, lines, &p)
	return p, err
}

// judge compares lines with what was written, and with what the server has.
func (b *bench) judge(ctx context.Context, lines []invariant.Line, p *proof) error {
	live, err := workload.Live(ctx, b.Client, b.Ledger.Sources)
	if err != nil {
		return err
	}
	writes := b.Ledger.Writes()
	p.lines, p.gaps = len(lines), gaps(lines)
	t := workload.Count(lines, writes)
	p.lost, p.net, p.synced, p.hidden = t.Lost, t.Net, t.Synced, t.Hidden
	if !b.options.stdout {
		p.repeated = t.Repeated
	}
	told, err := invariant.Replay(lines)
	p.fault = errors.Join(p.fault, err,
		invariant.Objects(lines), invariant.Streams(lines, true),
		invariant.Writes(lines, writes), invariant.Compare(told, live),
		b.report.plausible(p.gaps, len(b.Ledger.Sources)),
	)
	if p.fault == nil && (p.lost > 0 || p.repeated > 0 || p.hidden > 0 || len(lines) < 2 || len(writes) == 0) {
		p.fault = fmt.Errorf("%s, of %d acknowledged writes", p, len(writes))
	}
	return nil
}

// read reads the journal's files one after the other, so that only what the checks need is in memory. false says that
// one of them cannot be read, or is not what it should be. alone says that there is no other journal to read with it.
func (p *proof) read(journal string, alone bool) (lines []invariant.Line, whole bool) {
	files, err := invariant.JournalFiles(journal)
	if err != nil {
		p.fault = err
		return nil, false
	}
	var (
		all     []invariant.Line
		changes invariant.ChangesCheck
	)
	for _, f := range files {
		data, err := invariant.ReadFile(f)
		if err != nil {
			p.fault = fmt.Errorf("read journal: %w", err)
			return nil, false
		}
		lines, err := invariant.Parse(filepath.Base(f), 1, data)
		if err = errors.Join(err, invariant.Shape(lines), workload.Leak(f, data), foreign(f, data)); err != nil {
			p.fault = err
			return nil, false
		}
		if f != journal {
			p.rotations++
		}
		if alone {
			changes.Look(changing(lines))
		}
		p.bytes += len(data)
		if alone {
			lines = lighten(lines)
		} // else they are merged as they are written
		all = append(all, lines...)
	}
	if alone {
		dropOld(all)
		p.changes, p.fault = changes.Lists(), changes.Err()
	}
	return all, true
}

// changing returns the lines of streams that say what changed.
func changing(lines []invariant.Line) []invariant.Line {
	asked := make(map[string]bool)
	for _, s := range sources() {
		asked[s.Stream()] = s.Changes
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l invariant.Line) bool { return !asked[l.Stream] })
}

// lighten copies lines without what only Shape looks at, which is most of their weight.
func lighten(lines []invariant.Line) []invariant.Line {
	light := make([]invariant.Line, len(lines))
	for i, l := range lines {
		light[i] = invariant.Line{
			Seq: l.Seq, Term: l.Term, Time: l.Time, Type: l.Type, Origin: l.Origin, ID: l.ID, Stream: l.Stream,
			Group: l.Group, Version: l.Version, Resource: l.Resource, Kind: l.Kind,
			Namespace: l.Namespace, Name: l.Name, UID: l.UID, ResourceVersion: l.ResourceVersion,
			FinalStateKnown: l.FinalStateKnown, Reason: l.Reason, FromResourceVersion: l.FromResourceVersion,
			Count: l.Count, Object: l.Object, Where: l.Where,
		}
	}
	return light
}

// dropOld drops the objects of all lines but the latest of each object, which a replay ends with.
func dropOld(lines []invariant.Line) {
	latest := make(map[invariant.Key]int)
	for i := range lines {
		l := &lines[i]
		if l.Object == nil {
			continue
		}
		k := invariant.Key{Group: l.Group, Resource: l.Resource, Namespace: l.Namespace, Name: l.Name}
		if before, ok := latest[k]; ok {
			lines[before].Object = nil
		}
		latest[k] = i
	}
}

func gaps(lines []invariant.Line) map[string]int {
	found := make(map[string]int)
	for i := range lines {
		if lines[i].Type == invariant.Gap {
			found[lines[i].Reason]++
		}
	}
	return found
}
