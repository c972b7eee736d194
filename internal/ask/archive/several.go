package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// OpenAll opens several journals as one, those of replicas and those of shards, and resolves a selection. Their lines
// are merged into a temporary folder, which Close removes. seq is counted again, and term is as it was. With one path
// it is Open, then Resolve. With an *UnknownError the journal is returned all the same: what it may not have of that
// name can be asked.
func OpenAll(
	ctx context.Context, paths []string, s *argument.Selection, lines Lines, notice func(string),
) (j *Journal, err error) {
	if len(paths) == 1 {
		if j, err = Open(paths[0], notice); err != nil {
			return nil, err
		}
		err = j.Resolve(ctx, s)
	} else {
		j = &Journal{notice: notice}
		err = j.openAll(ctx, paths, s, lines)
	}
	if err != nil && !errors.As(err, new(*argument.UnknownError)) {
		j.Close()
		return nil, err
	}
	return j, err
}

// Lines says which lines of several journals an answer is made of.
type Lines int

// Those about what is selected; all, as Related needs; none but what Coverage says; or these, and each journal by
// itself, as Each has them.
const (
	SelectedLines Lines = iota
	AllLines
	NoLines
	EachJournal
)

// Each returns the journals that it was made of: itself, or, with EachJournal, several that are closed with it.
func (j *Journal) Each() []*Journal {
	if j.Merged() {
		return j.each
	}
	return []*Journal{j}
}

func (j *Journal) openAll(ctx context.Context, paths []string, s *argument.Selection, lines Lines) error {
	of, err := OpenEach(paths, j.notice)
	defer func() {
		if lines == EachJournal {
			j.each = of
			return
		}
		for _, one := range of {
			one.Close()
		}
	}()
	if err != nil {
		return err
	}
	if j.empty = !slices.ContainsFunc(of, func(one *Journal) bool { return !one.Empty() }); j.empty {
		j.order = merge.NewOrder(len(of))
		return j.takeEnds(ctx, of)
	}
	if err := j.takeCoverage(ctx, of); err != nil {
		return err
	}
	wanted := s
	if lines == AllLines {
		wanted = nil
	} else if err := ResolveIn(ctx, of, s); err != nil || lines >= NoLines {
		return err
	}
	plan, err := j.scan(ctx, of, wanted)
	if err != nil {
		return err
	}
	if err := j.takeEnds(ctx, of); err != nil {
		return err
	}
	j.order = plan.Order()
	if j.dir, j.lock, err = newScratch(); err != nil {
		return fmt.Errorf("merge journals: %w", err)
	}
	out := &mergedFiles{j: j, next: 1}
	defer out.close()
	if err := errors.Join(plan.Merge(ctx, out), out.end()); err != nil {
		return fmt.Errorf("merge journals: %w", err)
	}
	later, err := writtenLater(ctx, of)
	if err != nil {
		return err
	}
	j.coverage = coverage.Late(coverage.Late(coverage.Relisted(j.coverage, out.relisted), out.late), later)
	if lines == AllLines {
		return j.Resolve(ctx, s)
	}
	for _, one := range of {
		newest, err := one.Newest(ctx)
		if err != nil {
			return err
		}
		defs, err := definitions(newest)
		if err != nil {
			return err
		}
		j.defs = append(j.defs, defs...)
	}
	return nil
}

// confirmation is when one of the replicas whose journals are named last confirmed anything, and how long after that
// another one may have taken over.
type confirmation struct {
	at    time.Time
	lease time.Duration
}

// over reports whether another replica may have taken over by now.
func (c confirmation) over() bool { return !c.at.IsZero() && time.Since(c.at) > c.lease }

// confirmedByReplicas returns the last confirmation for each shard that replicas journal, "" for the whole.
func confirmedByReplicas(of [][]coverage.Stream) map[string]confirmation {
	confirmed := make(map[string]confirmation)
	for _, streams := range of {
		for _, s := range streams {
			shard := line.ParseStreamName(s.Name).Shard
			for _, in := range s.Intervals {
				if slices.Contains(in.HeldBack, coverage.LeaderElection) && in.To.After(confirmed[shard].at) {
					confirmed[shard] = confirmation{in.To, in.LeaseDuration}
				}
			}
		}
	}
	return confirmed
}

// takeCoverage takes what is known beside the lines of journals.
func (j *Journal) takeCoverage(ctx context.Context, of []*Journal) error {
	var all [][]coverage.Stream
	for _, one := range of {
		j.Unread, j.named = append(j.Unread, one.Unread...), j.named || one.named
		if one.Aside.At.After(j.Aside.At) {
			j.Aside = one.Aside
		}
		streams, err := one.AllCoverage()
		if err != nil && !one.Empty() {
			err = fmt.Errorf("%s: %w", one.path, err)
			if j.uncovered != nil {
				err = fmt.Errorf("%w; %w", j.uncovered, err)
			}
			j.uncovered = err
		}
		all, j.lostFiles = append(all, streams), append(j.lostFiles, one.lostFiles...)
	}
	j.confirmed = confirmedByReplicas(all)
	all, err := takeBack(ctx, of, all)
	if err != nil {
		return err
	}
	if union := coverage.Union(all...); len(union) > 0 {
		if j.uncovered != nil {
			j.notice(j.uncovered.Error())
		}
		j.SetCoverage(union) // what one has no coverage of is not covered
	}
	slices.SortStableFunc(j.Unread, func(a, b segment.Segment) int { return btoi(a.Active) - btoi(b.Active) })
	return nil
}

// scan finds out how the journals go together, which are opened again where a takeover has come between.
func (j *Journal) scan(ctx context.Context, of []*Journal, s *argument.Selection) (*merge.Plan, error) {
	for range maxTries {
		sources := make([]merge.Source, len(of))
		for i, one := range of {
			lines := func(ctx context.Context) iter.Seq2[merge.Line, error] { return one.lines(ctx, s) }
			sources[i] = merge.Source{Name: one.path, Lines: lines}
			// The coverage of a replica has all of its streams, also those that it has written nothing about. That it
			// cannot be read was reported before.
			covered, _ := one.AllCoverage()
			for n := range covered {
				sources[i].Streams = append(sources[i].Streams, covered[n].Name)
			}
			if s == nil {
				continue // Lines yields those of all streams
			}
			for n := range one.Segments {
				x, err := one.Index(ctx, n)
				if err != nil {
					return nil, err
				}
				for k := range x.Streams {
					sources[i].Streams = append(sources[i].Streams, x.Streams[k].Name)
				}
			}
		}
		plan, err := merge.Scan(ctx, sources, j.holdsBack)
		if err != nil {
			return nil, err
		}
		early := plan.Early()
		if len(early) == 0 {
			return plan, nil
		}
		for _, i := range slices.Backward(early) { // they are reopened, after the others
			again, err := Open(of[i].path, func(string) {})
			if err != nil {
				return nil, err
			}
			of[i].Close()
			copy(of[i:], of[i+1:])
			of[len(of)-1] = again
		}
	}
	return nil, errors.New("the replicas take over faster than their journals can be read")
}

// takeEnds takes where journals end.
func (j *Journal) takeEnds(ctx context.Context, of []*Journal) error {
	for _, one := range of {
		e, err := one.end(ctx)
		if err != nil {
			return err
		}
		j.ends = append(j.ends, e)
	}
	return nil
}

// holdsBack reports whether the entries of a stream have held changes back at some time: what its lines do not show may
// have changed, and need not be gone. A first list that was skipped does not count: what is listed after a takeover
// never is.
func (j *Journal) holdsBack(stream string) bool {
	for _, s := range j.coverage {
		if s.Name != stream {
			continue
		}
		for i := range s.Intervals {
			if slices.ContainsFunc(
				s.Intervals[i].HeldBack,
				func(key string) bool { return key != coverage.Initial && key != coverage.LeaderElection },
			) {
				return true
			}
		}
	}
	return false
}

// ResolveIn resolves a selection in the journal that knows most of what it names; or each name in one that knows it, as
// where they are in several shards.
func ResolveIn(ctx context.Context, of []*Journal, s *argument.Selection) error {
	of = slices.DeleteFunc(slices.Clone(of), (*Journal).Empty)
	var best, unknown *argument.Selection
	var failed error
	for _, j := range of {
		is := *s
		is.Objects = slices.Clone(s.Objects)
		err := j.Resolve(ctx, &is)
		switch {
		case err != nil && !errors.As(err, new(*argument.UnknownError)):
			return err
		case err != nil:
			if failed == nil {
				failed, unknown = err, &is
			}
		case best == nil || missed(&is) < missed(best):
			best = &is
		}
	}
	if best == nil || missed(best) > 0 {
		is := *s
		err := resolveEach(ctx, of, &is)
		switch {
		case err == nil:
			best = &is
		case !errors.As(err, new(*argument.UnknownError)):
			return err
		default:
			failed = err
		}
	}
	if best == nil {
		*s = *unknown // of which the resources may be known
		return failed
	}
	*s = *best
	return nil
}

// missed is how many names are in no line.
func missed(s *argument.Selection) int { return len(s.Unwatched) + len(s.Absent) }

// resolveEach resolves each name of a selection in the first journal that knows it.
func resolveEach(ctx context.Context, of []*Journal, s *argument.Selection) error {
	objects, unwatched := make([]argument.Object, len(s.Objects)), []*argument.UnknownError(nil)
	s.Absent = nil
	for i := range s.Objects {
		err := anyKnows(of, func(j *Journal) error {
			objects[i] = s.Objects[i]
			newest, err := j.Newest(ctx)
			if err == nil {
				err = j.resolveResource(newest, &objects[i])
			}
			if err == nil && objects[i].Name != "" {
				err = j.resolveName(ctx, s, &objects[i])
			}
			return err
		})
		if u, is := errors.AsType[*argument.UnknownError](err); is && u.Unwatched && tolerates(s, len(unwatched)) {
			unwatched = append(unwatched, u)
		} else if is && u.Unwatched || !awaits(s, err) {
			return err
		}
	}
	for _, namespace := range s.Namespaces {
		one := &argument.Selection{Namespaces: []string{namespace}}
		if err := anyKnows(of, func(j *Journal) error { return j.resolveNamespaces(ctx, one) }); err != nil {
			return err
		}
	}
	s.Objects, s.Unwatched = objects, unwatched
	return nil
}

// anyKnows tries journals until one of them knows a name.
func anyKnows(of []*Journal, try func(*Journal) error) (err error) {
	for _, j := range of {
		_, e := Again(j, func() (struct{}, error) { return struct{}{}, try(j) })
		if e == nil || !errors.As(e, new(*argument.UnknownError)) {
			return e
		}
		if err == nil {
			err = e
		}
	}
	return err
}

// maxTries is how often journals are read again that a takeover has lengthened meanwhile.
const maxTries = 10

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// OpenEach opens journals, the one that was written last first: what the others had to say until then is there then.
func OpenEach(paths []string, notice func(string)) (all []*Journal, err error) {
	written := make(map[string]time.Time)
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			written[path] = info.ModTime()
		}
	}
	paths = slices.SortedStableFunc(
		slices.Values(paths), func(a, b string) int { return written[b].Compare(written[a]) },
	)
	for _, path := range paths {
		j, err := Open(path, notice)
		if err != nil {
			return all, err
		}
		all = append(all, j)
	}
	return all, nil
}

// lines yields lines in order, those that files have twice once: all of them, or what is selected.
func (j *Journal) lines(ctx context.Context, s *argument.Selection) iter.Seq2[merge.Line, error] {
	return func(yield func(merge.Line, error) bool) {
		var missing uint64
		next := uint64(1) // seq that is not passed yet
		// take yields a line; so many are missing before it, beside those that were missing before others.
		take := func(l *line.Fields, more uint64) bool {
			missing += more
			l2 := merge.Line{Fields: l, Missing: missing}
			missing = 0
			return yield(l2, nil)
		}
		for i := range j.Segments {
			var err error
			if s == nil {
				next, err = j.all(ctx, i, next, take)
			} else {
				next, err = j.selected(ctx, i, s, next, &missing, take)
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(merge.Line{}, err)
				return
			}
		}
	}
}

// errStopped says that no more lines are wanted.
var errStopped = errors.New("no more is wanted")

// all calls take with the lines of a segment from a seq on, and returns the seq after them.
func (j *Journal) all(ctx context.Context, i int, next uint64, take func(*line.Fields, uint64) bool) (uint64, error) {
	var l line.Fields
	err := j.reader.Open(j.Segments[i], 0)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var raw segment.RawLine
		if raw, err = j.reader.Next(); err != nil || raw.Seq < next || l.Parse(raw.Bytes) != nil {
			continue
		}
		j.reader.addPerson(&l)
		missing := raw.Seq - next
		if next = l.Next(); !take(&l, missing) {
			return next, errStopped
		}
	}
	if errors.Is(err, io.EOF) {
		return next, nil
	}
	return next, fmt.Errorf("read %s: %w", j.Segments[i].Path, err)
}

// selected is all for the lines that a selection has. What is missing between files is added to missing.
func (j *Journal) selected(
	ctx context.Context, i int, s *argument.Selection, next uint64, missing *uint64,
	take func(*line.Fields, uint64) bool,
) (uint64, error) {
	x, err := j.Index(ctx, i)
	if err != nil {
		return next, err
	}
	if x.FirstSeq > next {
		*missing += x.FirstSeq - next
	}
	steps, err := Again(j, func() ([]Step, error) {
		x, err := j.Index(ctx, i) // a damaged one was made again
		if err != nil {
			return nil, err
		}
		steps, err := Steps(x, s, func(string, *index.Line) bool { return true })
		if err == nil {
			steps, err = withRemoved(x, s, steps)
		}
		return steps, err
	})
	if err != nil {
		return next, err
	}
	for v, err := range func(yield func(*Version, error) bool) { j.Walk(ctx, i, steps, yield) } {
		switch {
		case err != nil:
			return next, err
		case v.Seq >= next && !take(v.Fields, 0):
			return next, errStopped
		}
	}
	return max(next, x.Next), nil
}
