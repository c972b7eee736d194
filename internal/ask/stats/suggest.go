package stats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/yamlflow"
)

// Suggestion is a key of the config that would make the journal smaller.
type Suggestion struct {
	Key     string // without that of the entry
	Bytes   int64  // of the lines that were counted that would not be there
	Sampled bool   // Bytes is an estimate, by a sample
	YAML    string
	Loses   string // what the journal would not have any more, in words
}

// worth is the least share of all bytes that a suggestion saves, in per cent; and great of one that costs much.
const (
	worth = 1
	great = 5
)

// entry is what there is of the streams of one entry and namespace: those that differ by their shards alone.
type entry struct {
	line.StreamName
	ByType
	sampled
}

// Suggest returns what would make the journal smaller by at least one per cent of the bytes that were counted, what
// saves most first. Suggestions overlap.
func (c *Counts) Suggest(sample *Sample) []Suggestion {
	entries := make(map[string]*entry)
	for name, types := range c.Streams {
		is := line.ParseStreamName(name).Whole()
		if name == line.Journal || !is.Readable() {
			continue
		}
		e := entries[is.String()]
		if e == nil {
			e = &entry{StreamName: is}
			entries[is.String()] = e
		}
		for n := range types {
			e.ByType[n].add(types[n])
		}
		if s := sample.entries[is.String()]; s != nil {
			e.sampled = *s
		}
	}
	s := suggesting{total: c.Total().Bytes, all: !sample.partial && sample.Lines >= c.objectLines()}
	var changes, managed, applied int64
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		s.resource(e, entries)
		s.ignoreFields(e)
		s.payload(e)
		changes += e.share(e.changes)
		managed += e.share(e.managed)
		applied += e.share(e.applied)
	}
	s.namespaces(c.Namespaces)
	s.add(worth, Suggestion{
		Key: "changes", Bytes: changes, Sampled: true, YAML: "defaults:\n  changes: false\n",
		Loses: "what changed, for programs other than this one",
	})
	s.add(worth, Suggestion{
		Key: "dropFields", Bytes: managed, Sampled: true, YAML: "dropFields:\n  - metadata.managedFields\n",
		Loses: "which manager owns which field",
	})
	s.add(worth, Suggestion{
		Key: "dropFields", Bytes: applied, Sampled: true,
		YAML: "dropFields:\n  - metadata.managedFields\n  - " +
			yamlflow.Inline(`metadata.annotations["`+object.LastApplied+`"]`) + "\n",
		Loses: "the copy that kubectl apply leaves of what it has applied",
	})
	slices.SortStableFunc(s.found, func(a, b Suggestion) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return s.found
}

// objectLines is how many lines are about objects.
func (c *Counts) objectLines() int64 {
	return c.Types[0].Lines + c.Types[index.Added].Lines + c.Types[index.Modified].Lines + c.Types[index.Deleted].Lines
}

// share returns how many of an entry's bytes are what so many are of the sample's.
func (e *entry) share(bytes int64) int64 {
	if e.sampled.Bytes == 0 {
		return 0
	}
	all := e.ByType[index.Added].Bytes + e.ByType[index.Modified].Bytes + e.ByType[index.Deleted].Bytes
	return int64(float64(bytes) / float64(e.sampled.Bytes) * float64(all))
}

type suggesting struct {
	total int64
	all   bool // the sample is all lines
	found []Suggestion
}

// add adds a suggestion that saves so many per cent.
func (s *suggesting) add(least int64, of Suggestion) {
	if of.Sampled = of.Sampled && !s.all; of.Bytes > 0 && of.Bytes*100 >= s.total*least {
		s.found = append(s.found, of)
	}
}

// resource suggests to leave out resources that others stand for, or that say little, and the deletions of Events.
func (s *suggesting) resource(e *entry, entries map[string]*entry) {
	exclude := func(loses string) {
		s.add(worth, Suggestion{
			Key: "exclude", Bytes: e.sum().Bytes, Loses: loses,
			YAML: "resources:\n  - resource: \"*\"\n    group: \"*\"\n    exclude: " +
				yamlflow.Inline([]string{e.Resource}) + "\n",
		})
	}
	slices := e.StreamName
	slices.Resource = "endpointslices.discovery.k8s.io"
	switch e.Resource {
	case "leases.coordination.k8s.io":
		exclude("heartbeats of nodes, and who leads")
	case "endpoints":
		if entries[slices.String()] != nil {
			exclude("nothing: EndpointSlices have the same")
		}
	case "events", "events.events.k8s.io":
		s.add(worth, Suggestion{
			Key: "types", Bytes: e.ByType[index.Deleted].Bytes, YAML: e.yaml("types: [ADDED, MODIFIED]"),
			Loses: "when the server removed an Event, which it does after an hour",
		})
	}
	if all := (line.StreamName{Resource: e.Resource}); e.StreamName != all && entries[all.String()] != nil {
		s.add(worth, Suggestion{
			Key: "resources", Bytes: e.sum().Bytes, YAML: "# without this entry\n" + e.yaml(""),
			Loses: "nothing, while " + e.Resource + " has the same",
		})
	}
}

// yaml returns an entry of the config with some keys.
func (e *entry) yaml(keys string) string {
	text := "resources:\n  - resource: " + yamlflow.Inline(e.Resource) + "\n"
	if e.Namespace != "" {
		text += "    namespaces: " + yamlflow.Inline([]string{e.Namespace}) + "\n"
	}
	for _, of := range [][2]string{{"labelSelector", e.LabelSelector}, {"fieldSelector", e.FieldSelector}} {
		if of[1] != "" {
			text += "    " + of[0] + ": " + yamlflow.Inline(of[1]) + "\n"
		}
	}
	if keys == "" {
		return text
	}
	return text + "    " + keys + "\n"
}

// ignoreFields suggests fields whose changes say little.
func (s *suggesting) ignoreFields(e *entry) {
	const least, most = 10, 6 // versions in the sample, and fields
	if e.modified.Lines < least {
		return
	}
	var quiet []string
	for paths, is := range e.changed {
		if is.quiet == is.Lines && paths != "" {
			quiet = append(quiet, paths)
		}
	}
	slices.SortFunc(quiet, func(a, b string) int {
		return cmp.Or(cmp.Compare(e.changed[b].Bytes, e.changed[a].Bytes), strings.Compare(a, b))
	})
	var fields []string
	for _, paths := range quiet {
		both := append(slices.Clone(fields), strings.Split(paths, "\n")...)
		slices.Sort(both)
		both = slices.Compact(both)
		if len(both) <= most && e.changed[paths].Bytes*100 >= e.modified.Bytes*worth {
			fields = both
		}
	}
	if len(fields) == 0 {
		return
	}
	held := int64(0)
	for paths, is := range e.changed {
		if !slices.ContainsFunc(strings.Split(paths, "\n"), func(path string) bool {
			return path != "" && !slices.ContainsFunc(fields, func(field string) bool { return within(path, field) })
		}) {
			held += is.Bytes
		}
	}
	keys := "ignoreFields:"
	for _, field := range fields {
		keys += "\n      - " + yamlflow.Inline(field)
	}
	s.add(worth, Suggestion{
		Key: "ignoreFields", Sampled: true, YAML: e.yaml(keys),
		Bytes: int64(float64(held) / float64(e.modified.Bytes) * float64(e.ByType[index.Modified].Bytes)),
		Loses: "versions in which nothing else changed",
	})
}

// payload suggests to leave out all of an object but its metadata.
func (s *suggesting) payload(e *entry) {
	s.add(great, Suggestion{
		Key: "payload", Bytes: e.share(e.notMetadata), Sampled: true, YAML: e.yaml("payload: metadata"),
		Loses: "spec and status; nothing can be restored",
	})
}

// namespaces suggests to leave out the objects of namespaces.
func (s *suggesting) namespaces(all map[string]Count) {
	if len(all) < 2 {
		return // nothing would be left
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.ContainsAny(name, `*?[\`) {
			continue // it would be a glob
		}
		s.add(2*great, Suggestion{
			Key: "excludeNamespaces", Bytes: all[name].Bytes,
			YAML:  fmt.Sprintf("defaults:\n  excludeNamespaces: %s\n", yamlflow.Inline([]string{name})),
			Loses: "all that happens in the namespace",
		})
	}
}
