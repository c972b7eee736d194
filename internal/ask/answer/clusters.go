package answer

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/rawjson"
)

// Asked is a cluster that is asked: its journals as one, what is selected of them, and where its answer goes.
type Asked struct {
	Cluster   string // empty where one is asked alone
	Journal   *question.Journal
	Selection *argument.Selection
	Output    *Output
}

// Several reports whether several clusters are asked, also where one of them has an answer.
func Several(all []Asked) bool { return len(all) > 0 && all[0].Cluster != "" }

// Of returns the output of one of several clusters: its notes begin with the cluster's name.
func (o *Output) Of(cluster string) *Output {
	of := *o
	of.cluster = cluster
	return &of
}

func (o *Output) prefix() string {
	if o.cluster == "" {
		return ""
	}
	return printable(o.cluster) + ": "
}

// Heading begins the answer of one of several clusters, in text.
func (o *Output) Heading() error {
	if o.cluster == "" {
		return nil
	}
	_, err := fmt.Fprintln(o, heading(o.cluster))
	return err
}

func heading(cluster string) string { return "-- cluster " + printable(cluster) }

// Each calls fn for each of several, and returns what the answers come to together. A fault ends it.
func Each[T any](all []T, fn func(T) error) error {
	var result error
	for _, one := range all {
		err := fn(one)
		if err != nil && !IsResult(err) {
			return err
		}
		result = errors.Join(result, err)
	}
	return result
}

// IsResult reports whether an error is what an answer has come to, and no fault.
func IsResult(err error) bool {
	return errors.Is(err, ErrNotCovered) || errors.Is(err, ErrDifferent) || errors.Is(err, ErrRefused)
}

// errStopped says that no more rows are wanted.
var errStopped = errors.New("no more rows are wanted")

// inOrder shows the rows of several histories in the order of their times, each with the index of its history. Those of
// one history stay in their order, and text follows its row.
func inOrder(all []iter.Seq2[*follow.Row, error], show func(n int, r *follow.Row) error) error {
	type head struct {
		*follow.Row
		pull  func() (*follow.Row, error, bool)
		there bool
	}
	heads := make([]head, len(all))
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	step := func(n int) (err error) {
		h := &heads[n]
		h.Row, err, h.there = h.pull()
		return err
	}
	for n, one := range all {
		pull, stop := iter.Pull2(one)
		heads[n].pull, stops = pull, append(stops, stop)
		if err := step(n); err != nil {
			return err
		}
	}
	for last := 0; ; {
		first := -1
		for n := range heads {
			n = (last + n) % len(heads) // of the same time, those of one history stay together
			if heads[n].there && (first < 0 || heads[n].At.Before(heads[first].At)) {
				first = n
			}
		}
		if first < 0 {
			return nil
		}
		if err := show(first, heads[first].Row); err != nil {
			return err
		}
		last = first
		if err := step(first); err != nil {
			return err
		}
	}
}

// showOf shows a row of one of several clusters.
func showOf(p *follow.Printer, cluster string, r *follow.Row, json bool) error {
	switch own := *r; {
	case r.Line != nil && json:
		l := *r.Line
		l.Raw = withCluster(l.Raw, cluster)
		own.Line, r = &l, &own
	case r.Remark:
		own.Text, r = printable(cluster)+": "+r.Text, &own
	}
	return p.Show(cluster, r)
}

// withCluster returns a line as JSON with its cluster's name.
func withCluster(raw []byte, cluster string) []byte {
	member := fmt.Appendf(nil, "\"cluster\":\"%s\"", rawjson.AppendEscaped(nil, cluster))
	c := rawjson.NewCursor(raw)
	behind := 0 // the member before
	for more := c.Take('{'); more; more = c.Take(',') {
		begin := c.Offset()
		key, ok := c.Key()
		if value := c.Value(); !ok || value == nil {
			return raw // which Parse does not take
		}
		switch string(key) {
		case "cluster":
			return slices.Concat(raw[:begin], member, raw[c.Offset():])
		case "stream":
			behind = c.Offset()
		}
	}
	return slices.Concat(raw[:behind], []byte{','}, member, raw[behind:])
}
