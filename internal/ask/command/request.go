// Package command answers what the commands of the same names ask: it checks a question, opens the journals, and prints
// the answer. It knows no flags, so that other programs can ask the same.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/cluster"
	"kubejournal/internal/ask/question"
)

// Question is what is asked of journals: History, Get, Diff, Blame, Why, Coverage or Stats.
type Question interface {
	// Prepare checks the question, and notes in r what its answer needs.
	Prepare(r *Request) error
	// Answer prints the answer of the clusters that have what is asked for.
	Answer(ctx context.Context, r *Request, all []answer.Asked, o *answer.Output) error
}

// Request is what questions have in common: which journals are asked about which objects.
type Request struct {
	Journals   []string // active files
	Clusters   []string // names; none for all
	Objects    []string // as argument.Objects takes them
	Namespaces []string // none for all
	Output     string   // a format of the question; "" for its default
	Flags      []string // with which kubejournal reads the same journals, each with its value after it

	About cluster.Question // by Prepare
	lines archive.Lines
	// the flags with which the output is what kubectl takes, which is of one cluster; else empty
	applied string
}

// UsageError is a question that makes no sense.
type UsageError struct{ error }

func usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Opened are the journals of a request, each cluster's as one.
type Opened []*cluster.Opened

// Close closes what was opened.
func (all Opened) Close() {
	for _, of := range all {
		of.Close()
	}
}

// Watched reports whether any stream was ever watched that may have what is selected.
func (all Opened) Watched() bool {
	return slices.ContainsFunc(all, func(of *cluster.Opened) bool {
		streams, err := of.Coverage(of.Selection)
		return err == nil && len(streams) > 0
	})
}

// Open opens the journals of a request that is prepared, and finds out what is selected. What is returned is to be
// closed, with an error too. The error is cluster.ErrUnknown or answer.ErrNotCovered, once it was explained, where no
// cluster has anything to answer from.
func (r *Request) Open(ctx context.Context, o *answer.Output) (Opened, error) {
	clusters, err := Clusters(ctx, r.Journals, r.Clusters, func(text string) { o.Note("%s", text) })
	if err != nil {
		return nil, err
	}
	if err := r.checkClusters(clusters); err != nil {
		return nil, err
	}
	objects, err := argument.Objects(r.Objects)
	if err != nil {
		return nil, UsageError{err}
	}
	s := &argument.Selection{Objects: objects, Namespaces: r.Namespaces}
	notice := func(cluster, text string) { o.Of(cluster).Note("%s", text) }
	opened, err := cluster.Open(ctx, clusters, s, r.lines, notice)
	if err != nil {
		return opened, err
	}
	if err := r.About.Missing(ctx, opened, o); err != nil {
		return opened, removed(err)
	}
	if one := opened[0]; len(opened) == 1 && one.Empty() {
		o.Note("journal %s has no line yet", strings.Join(clusters[0].Paths, ", "))
		return opened, answer.ErrNotCovered
	}
	return opened, nil
}

// Answer prints the answer to a question.
func (r *Request) Answer(ctx context.Context, q Question, opened Opened, o *answer.Output) error {
	return removed(r.About.Answer(ctx, opened, o, func(all []answer.Asked, o *answer.Output) error {
		return q.Answer(ctx, r, all, o)
	}))
}

// removed explains an error about a file that is gone.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; a file of the journal was removed meanwhile, ask again", err)
	}
	return err
}

// Clusters returns the clusters that have some names, all without a name, with their journals. One journal is not read
// for that.
func Clusters(ctx context.Context, paths, names []string, notice func(string)) ([]cluster.Journals, error) {
	if len(paths) == 1 && len(names) == 0 {
		return []cluster.Journals{{Paths: paths}}, nil
	}
	all, err := cluster.Group(ctx, paths, notice)
	if err != nil {
		return nil, err
	}
	return cluster.Choose(all, names)
}

// checkClusters returns a UsageError for what is asked of one cluster, or of one journal, where there are several.
func (r *Request) checkClusters(all []cluster.Journals) error {
	if len(all) == 1 {
		return CheckOne(len(all[0].Paths), r.About.Begin, r.About.To)
	}
	what := r.applied
	for _, m := range []argument.Moment{r.About.Begin, r.About.To} {
		if m.Seq+m.Version > 0 {
			what = m.String()
		}
	}
	if what == "" {
		return nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return usagef("%s is for one cluster, and these are asked: %s; name one with --cluster",
		what, strings.Join(names, ", "))
}

// OneCluster returns the journals of the one cluster that is asked, at a moment. An error says what takes no more than
// one.
func (r *Request) OneCluster(
	ctx context.Context, by string, at argument.Moment, notice func(string),
) ([]string, error) {
	all, err := Clusters(ctx, r.Journals, r.Clusters, notice)
	if err != nil {
		return nil, err
	}
	r.applied, r.About.To = by, at
	if err := r.checkClusters(all); err != nil {
		return nil, err
	}
	return all[0].Paths, nil
}

// namespace returns the one namespace that is asked for, "" for any other number.
func (r *Request) namespace() string {
	if len(r.Namespaces) != 1 {
		return ""
	}
	return r.Namespaces[0]
}

// CheckTimes returns a UsageError where --until is before --since.
func CheckTimes(since, until argument.Moment) error {
	if argument.Reversed(since, until) {
		return usagef("--until is before --since")
	}
	return nil
}

// CheckOne returns a UsageError for a line's number where there are several journals.
func CheckOne(journals int, moments ...argument.Moment) error {
	for _, m := range moments {
		if m.Seq > 0 && journals > 1 {
			return usagef("%s is a line of one journal, and several are named; write a time instead", m)
		}
	}
	return nil
}

// checkVersions returns a UsageError for a version of the server where more than one resource is asked for.
func checkVersions(s *argument.Selection, moments ...argument.Moment) error {
	for _, m := range moments {
		if m.Version > 0 && (len(s.Objects) != 1 || s.Objects[0].Word() == "*") {
			return usagef("rv: is for one resource: another one may be at another version")
		}
	}
	return nil
}

// versionLines returns since and until with lines in the place of versions of the server.
func versionLines(
	ctx context.Context, j *question.Journal, s *argument.Selection, since, until *argument.Moment,
) (doubts []question.Doubt, err error) {
	if err := checkVersions(s, *since, *until); err != nil {
		return nil, err
	}
	*since, *until, doubts, err = j.VersionLines(ctx, s, *since, *until)
	if several, ok := errors.AsType[*question.SeveralStreamsError](err); ok {
		return nil, UsageError{several}
	}
	return doubts, err
}

// ParseTime reads a TIME that an argument of that name has. An empty one, as of an empty variable, is none, but for
// "at". But for "until" it must not be still to come, where it may come from a clock that is ahead of this one.
func ParseTime(name, text string) (m argument.Moment, err error) {
	const ahead = 5 * time.Minute
	if text != "" || name == "at" {
		m, err = argument.ParseMoment(text, time.Now())
	}
	if err == nil && name != "until" && m.Time.After(time.Now().Add(ahead)) {
		return m, fmt.Errorf("%s is still to come; for the day before write e.g. yesterday 14:02", m)
	}
	return m, err
}
