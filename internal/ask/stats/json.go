package stats

import (
	"time"

	"kubejournal/internal/ask/question"
)

// The form of -o json. Fields may be added.
type document struct {
	Cluster     string             `json:"cluster,omitempty"`
	First       time.Time          `json:"first,omitzero"`
	Last        time.Time          `json:"last,omitzero"`
	Lines       int64              `json:"lines"`
	Bytes       int64              `json:"bytes"`
	Types       map[string]Count   `json:"types"`
	Streams     list[streamRow]    `json:"streams"`
	Namespaces  list[namespaceRow] `json:"namespaces"`
	Objects     list[objectRow]    `json:"objects"`
	Managers    list[managerRow]   `json:"managers"`
	Hours       list[hourRow]      `json:"hours"`
	Suggestions []suggestionRow    `json:"suggestions"`
	Sample      Count              `json:"sample"`
	NotCovered  []question.Doubt   `json:"notCovered"`
}

// list has the first of some rows, and counts the others.
type list[R any] struct {
	Count  int   `json:"count"` // of all rows
	Top    []R   `json:"top"`
	Others Count `json:"others"`
}

type streamRow struct {
	Stream string `json:"stream"`
	Count
	Types map[string]Count `json:"types"`
}

type namespaceRow struct {
	Namespace string `json:"namespace"`
	Count
}

type objectRow struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Count
}

type managerRow struct {
	Manager string `json:"manager"`
	Count
}

type hourRow struct {
	Hour time.Time `json:"hour"`
	Count
}

type suggestionRow struct {
	Key     string  `json:"key"`
	Bytes   int64   `json:"bytes"`
	Percent float64 `json:"percent"`
	Sampled bool    `json:"sampled"`
	YAML    string  `json:"yaml"`
	Loses   string  `json:"loses"`
}

func (s *Stats) document(cluster string, f *found) *document {
	total := f.Total()
	first, last := f.Received()
	d := &document{
		Cluster: cluster, First: first, Last: last, Lines: total.Lines, Bytes: total.Bytes, Types: byName(&f.Types),
		Streams: listOf(f.TopStreams(s.Top), func(r Row[string]) streamRow {
			return streamRow{r.Of, r.Count, byName(f.Streams[r.Of])}
		}),
		Namespaces: listOf(top(f.Namespaces, s.Top), func(r Row[string]) namespaceRow {
			return namespaceRow{r.Of, r.Count}
		}),
		Objects: listOf(f.objects, func(r Row[Object]) objectRow {
			return objectRow{r.Of.Resource, r.Of.Namespace, r.Of.Name, r.Count}
		}),
		Managers: listOf(top(f.Managers, s.Top), func(r Row[string]) managerRow { return managerRow{r.Of, r.Count} }),
		Hours: listOf(f.TopHours(s.Top), func(r Row[int64]) hourRow {
			return hourRow{time.Unix(r.Of, 0).UTC(), r.Count}
		}),
		Suggestions: []suggestionRow{}, Sample: f.sample.Count, NotCovered: f.doubts,
	}
	for _, one := range f.suggestions {
		d.Suggestions = append(d.Suggestions, suggestionRow{
			one.Key, one.Bytes, float64(one.Bytes*1000/max(total.Bytes, 1)) / 10, one.Sampled, one.YAML, one.Loses,
		})
	}
	if d.NotCovered == nil {
		d.NotCovered = []question.Doubt{}
	}
	return d
}

func byName(types *ByType) map[string]Count {
	all := make(map[string]Count)
	for _, t := range typeOrder {
		if types[t].Lines > 0 {
			all[typeName(t)] = types[t]
		}
	}
	return all
}

func listOf[K, R any](t Top[K], row func(Row[K]) R) list[R] {
	l := list[R]{Count: t.Many, Top: make([]R, 0, len(t.Rows)), Others: t.Others}
	for _, r := range t.Rows {
		l.Top = append(l.Top, row(r))
	}
	return l
}
