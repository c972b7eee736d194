// Package cluster groups journals by the clusters that they are of, and opens those of each as one.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// Journals are the journals of one cluster: those of its replicas and of its shards.
type Journals struct {
	// Name is the cluster's, as the last line of its journals has it. Without one it is the beginning of UID; where
	// clusters have the same name, the beginning of UID follows it.
	Name  string
	UID   string // of the namespace kube-system; empty where no line has it
	Paths []string

	label string    // its name in the last line
	last  time.Time // of that line
}

// shortUID is how much of a uid stands for all of it.
const shortUID = 8

// Group groups journals by the clusters that they are of, in the order of the clusters' names. Two journals are of one
// cluster if their lines have the same clusterUID. One that has none, as that of a replica that wrote no GAP and no
// SYNCED, is of the cluster whose name it has or, without a name, of the only one that there is. notice is told of
// journals that are left out.
func Group(ctx context.Context, paths []string, notice func(string)) ([]Journals, error) {
	var all, unidentified []Journals
	var empty []string
	for _, path := range paths {
		c, there, err := clusterOf(ctx, path)
		switch {
		case err != nil:
			return nil, err
		case !there:
			empty = append(empty, path)
		case c.UID == "":
			unidentified = append(unidentified, c)
		default:
			all = join(all, &c, func(of *Journals) bool { return of.UID == c.UID })
		}
	}
	// Those without a name come last.
	slices.SortStableFunc(
		unidentified, func(a, b Journals) int { return cmp.Compare(min(len(b.label), 1), min(len(a.label), 1)) },
	)
	for i := range unidentified {
		c := &unidentified[i]
		same := func(of *Journals) bool { return c.label == "" || of.label == c.label }
		if of := which(all, same); len(of) > 1 {
			return nil, fmt.Errorf("journal %s may be of %s: no line has a clusterUID, and no cluster that tells them apart; "+
				"set another cluster in each config, or ask for the journals of one alone", c.Paths[0], strings.Join(of, " or "))
		}
		all = join(all, c, same)
	}
	switch {
	case len(all) == 0:
		return []Journals{{Paths: empty}}, nil
	case len(all) == 1: // it does not matter whose the others are: they say nothing
		all[0].Paths = append(all[0].Paths, empty...)
	default:
		for _, path := range empty {
			notice(
				fmt.Sprintf("journal %s has no line yet, so nothing says which cluster it is of; it is left out", path),
			)
		}
	}
	name(all)
	slices.SortFunc(all, func(a, b Journals) int { return strings.Compare(a.Name, b.Name) })
	for i := range all { // as they were given
		slices.SortFunc(all[i].Paths, func(a, b string) int { return slices.Index(paths, a) - slices.Index(paths, b) })
	}
	return all, nil
}

// join adds the journals of c to those of the same cluster, whose name is the one in the last of the journals' last
// lines.
func join(all []Journals, c *Journals, same func(*Journals) bool) []Journals {
	for i := range all {
		of := &all[i]
		if !same(of) {
			continue
		}
		of.Paths = append(of.Paths, c.Paths...)
		if c.label != "" && (of.label == "" || c.last.After(of.last)) {
			of.label, of.last = c.label, c.last
		}
		return all
	}
	return append(all, *c)
}

// which returns the names of some clusters.
func which(all []Journals, is func(*Journals) bool) (names []string) {
	all = slices.Clone(all)
	name(all)
	for i := range all {
		if is(&all[i]) {
			names = append(names, all[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// name sets the clusters' names, the shortest that tell them apart.
func name(all []Journals) {
	short := func(c *Journals) string { return c.UID[:min(len(c.UID), shortUID)] }
	for _, form := range []func(*Journals) string{
		func(c *Journals) string { return cmp.Or(c.label, short(c)) },
		func(c *Journals) string { return strings.Trim(c.label+"-"+short(c), "-") },
		func(c *Journals) string { return cmp.Or(c.UID, c.label) },
	} {
		taken := make(map[string]int)
		for i := range all {
			taken[all[i].Name]++
		}
		for i := range all {
			if c := &all[i]; taken[c.Name] > 1 || c.Name == "" {
				c.Name = form(c)
			}
		}
	}
}

// Choose returns the clusters that have some names, or their uids in full; all without a name.
func Choose(all []Journals, names []string) ([]Journals, error) {
	chosen := make(map[string]bool)
	for _, name := range names {
		i := slices.IndexFunc(all, func(c Journals) bool { return name != "" && (c.Name == name || c.UID == name) })
		if i < 0 {
			var there []string
			for _, c := range all {
				there = append(there, c.Name)
			}
			if there = slices.DeleteFunc(there, func(name string) bool { return name == "" }); len(there) == 0 {
				return nil, fmt.Errorf("no journal is of cluster %q: no line says which cluster it is of", name)
			}
			return nil, fmt.Errorf("no journal is of cluster %q; they are of %s", name, argument.Some(there))
		}
		chosen[all[i].Name] = true
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Journals) bool { return !chosen[c.Name] }), nil
}

// clusterOf returns the cluster of a journal; there is none where the journal has no line. As few lines as possible are
// read.
func clusterOf(ctx context.Context, path string) (c Journals, there bool, err error) {
	j, err := archive.Open(path, func(string) {}) // who asks the journal is told
	if err != nil {
		return c, false, err
	}
	defer j.Close()
	if j.Empty() {
		return c, false, nil
	}
	c.Paths = []string{path}
	if c.UID, err = archive.Again(j, func() (string, error) { return clusterUID(ctx, j) }); err != nil {
		return c, false, err
	}
	last, err := archive.Again(j, func() (*line.Fields, error) { return lastLine(ctx, j) })
	if err == nil && last != nil {
		c.label, c.last = last.Unquoted(line.FieldCluster), last.Time
	}
	return c, true, err
}

// clusterUID returns the uid in the first GAP or SYNCED that has one. Indexes say where they are; a file without an
// index is read where no other one has such a line.
func clusterUID(ctx context.Context, j *archive.Journal) (uid string, err error) {
	for i, s := range j.Segments {
		if !s.Indexed() {
			continue
		}
		x, err := j.Index(ctx, i)
		if err != nil {
			return "", err
		}
		for n := range x.Streams {
			for _, at := range x.Streams[n].Marks {
				l, err := x.Line(at)
				if err != nil {
					return "", fmt.Errorf("read index: %w", err)
				}
				f, err := j.LineIn(ctx, i, &l)
				if err != nil {
					return "", err
				}
				if uid := f.Unquoted(line.FieldClusterUID); uid != "" {
					return uid, nil
				}
			}
		}
	}
	for _, s := range j.Segments {
		if s.Indexed() {
			continue
		}
		if uid, err := firstUID(ctx, s); err != nil || uid != "" {
			return uid, err
		}
	}
	return "", nil
}

// firstUID reads the lines of a segment up to one that has a uid.
func firstUID(ctx context.Context, s *archive.Segment) (string, error) {
	var in archive.Reader
	defer in.Close()
	var l line.Fields
	err := in.Open(s, 0)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var raw segment.RawLine
		if raw, err = in.Next(); err != nil || l.Parse(raw.Bytes) != nil {
			continue
		}
		if uid := l.Unquoted(line.FieldClusterUID); uid != "" {
			return uid, nil
		}
	}
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	return "", fmt.Errorf("read %s: %w", s.Path, err)
}

// lastLine returns the journal's last line, nil where it cannot be read.
func lastLine(ctx context.Context, j *archive.Journal) (*line.Fields, error) {
	n := len(j.Segments) - 1
	s := j.Segments[n]
	if s.Gzip {
		x, err := j.Index(ctx, n)
		if err != nil {
			return nil, err
		}
		l, err := x.Line(x.Lines - 1)
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		return j.LineIn(ctx, n, &l)
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("read last line: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read last line: %w", err)
	}
	last := &line.Fields{}
	for lines := segment.NewBackward(f, info.Size()); ; {
		l, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", s.Path, err)
		case last.Parse(bytes.Clone(l.Bytes)) == nil:
			return last, nil
		}
	}
}

// Opened is a cluster's journals as one, and what is selected of them.
type Opened struct {
	Cluster string // its name; empty where one is asked alone
	*archive.Journal
	*argument.Selection
	Known   bool      // the journals have one of the names that are asked for, if any is
	Unknown []Unknown // the names that they do not have

	names []any // that they have, as in Unknown
}

// Unknown is a name that the journals of a cluster do not have, or a list of names of which at least one is missing.
type Unknown struct {
	*argument.UnknownError
	*argument.Selection      // what is asked for by that name
	Everywhere          bool // no other cluster has it either

	name any // an Object, or a namespace
}

// Open opens the journals of each cluster, as archive.OpenAll does, and resolves a selection in each. A name that a
// cluster does not have is among its Unknown, and not selected there. What is returned is to be closed, with an error
// too.
func Open(
	ctx context.Context, clusters []Journals, s *argument.Selection, lines archive.Lines,
	notice func(cluster, text string),
) (all []*Opened, err error) {
	known := make(map[any]bool)
	for i := range clusters {
		o := &Opened{Known: true}
		if len(clusters) > 1 {
			o.Cluster = clusters[i].Name
		}
		all = append(all, o)
		if err := o.open(ctx, clusters[i].Paths, s, lines, func(text string) { notice(o.Cluster, text) }); err != nil {
			return all, err
		}
		for _, name := range o.names {
			known[name] = true
		}
	}
	for _, o := range all {
		for i := range o.Unknown {
			o.Unknown[i].Everywhere = !known[o.Unknown[i].name]
		}
	}
	return all, nil
}

// Close closes what was opened.
func (o *Opened) Close() {
	if o.Journal != nil {
		o.Journal.Close()
	}
}

func (o *Opened) open(
	ctx context.Context, paths []string, s *argument.Selection, lines archive.Lines, notice func(string),
) (err error) {
	o.Selection = clone(s)
	o.Journal, err = archive.OpenAll(ctx, paths, o.Selection, lines, notice)
	u, unknown := errors.AsType[*argument.UnknownError](err)
	switch {
	case !unknown:
		o.names = namesIn(s)
		return err
	case o.Cluster == "":
		o.Known, o.Unknown = false, []Unknown{{UnknownError: u, Selection: o.Selection}}
		return nil
	}
	there, err := o.narrow(ctx, paths, s)
	if o.Known = there != nil; err != nil || !o.Known {
		return err
	}
	o.Journal.Close()
	o.Selection = there
	o.Journal, err = archive.OpenAll(ctx, paths, there, lines, func(string) {}) // which was told before
	return err
}

// narrow returns the part of a selection that journals have, nil where they have none, and notes the names that they do
// not have.
func (o *Opened) narrow(ctx context.Context, paths []string, s *argument.Selection) (*argument.Selection, error) {
	of, err := archive.OpenEach(paths, func(string) {})
	defer func() {
		for _, j := range of {
			j.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	has := func(name any, one *argument.Selection) bool {
		e := archive.ResolveIn(ctx, of, one)
		if u, unknown := errors.AsType[*argument.UnknownError](e); unknown {
			o.Unknown = append(o.Unknown, Unknown{UnknownError: u, Selection: one, name: name})
		} else if err = errors.Join(err, e); e == nil {
			o.names = append(o.names, name)
		}
		return e == nil
	}
	there := &argument.Selection{}
	for _, namespace := range s.Namespaces {
		if has(namespace, &argument.Selection{Namespaces: []string{namespace}}) {
			there.Namespaces = append(there.Namespaces, namespace)
		}
	}
	if err != nil || len(there.Namespaces) == 0 && len(s.Namespaces) > 0 {
		return nil, err
	}
	for _, object := range s.Objects {
		if has(object, &argument.Selection{Objects: []argument.Object{object}, Namespaces: there.Namespaces}) {
			there.Objects = append(there.Objects, object)
		}
	}
	if err != nil || len(there.Objects) == 0 && len(s.Objects) > 0 {
		return nil, err
	}
	return there, nil
}

// namesIn returns the objects and the namespaces that are asked for, which Resolve changes.
func namesIn(s *argument.Selection) (all []any) {
	for _, object := range s.Objects {
		all = append(all, object)
	}
	for _, namespace := range s.Namespaces {
		all = append(all, namespace)
	}
	return all
}

// clone returns a selection of the same that another journal resolves.
func clone(s *argument.Selection) *argument.Selection {
	c := *s
	c.Objects, c.Namespaces = slices.Clone(s.Objects), slices.Clone(s.Namespaces)
	return &c
}
