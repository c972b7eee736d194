package stats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
)

// What is read of the lines: so many places, as far apart in bytes as can be, and so many lines at each.
const (
	samplePlaces = 8
	sampleLines  = 256
	compareLines = 32 // with the line before, where a line does not list its changes
)

// Sample is what was read of the lines about objects.
type Sample struct {
	Count
	entries map[string]*sampled // by stream, without its shard
	partial bool                // of some lines it is not known what changed
}

// sampled is what the lines of a stream have.
type sampled struct {
	Count
	modified                               Count
	notMetadata, changes, managed, applied int64               // bytes
	changed                                map[string]*changed // by the paths of the fields that changed, a line each
}

// changed is of versions that changed the same fields.
type changed struct {
	Count
	quiet int64 // lines that say no more than that time has passed
}

// Read reads a sample of the lines that were counted; all of them where there are few.
func (c *Counts) Read(ctx context.Context, all []*question.Journal, s *argument.Selection) (*Sample, error) {
	sample := &Sample{entries: make(map[string]*sampled)}
	total := c.Total()
	if total.Lines <= samplePlaces*sampleLines {
		for i := range c.parts {
			if err := sample.read(ctx, all, s, &c.parts[i], 0, int(total.Lines)); err != nil {
				return nil, err
			}
		}
		return sample, nil
	}
	i, before := 0, int64(0)
	for n := range int64(samplePlaces) {
		at := total.Bytes / samplePlaces * n
		for before+c.parts[i].Bytes <= at {
			before += c.parts[i].Bytes
			i++
		}
		first := float64(at-before) / float64(c.parts[i].Bytes) * float64(c.parts[i].Lines)
		if err := sample.read(ctx, all, s, &c.parts[i], int(first), sampleLines); err != nil {
			return nil, err
		}
	}
	return sample, nil
}

// read reads so many lines of a segment from one on.
func (s *Sample) read(
	ctx context.Context, all []*question.Journal, sel *argument.Selection, of *counted, first, count int,
) error {
	j := all[of.journal]
	steps, err := of.Steps(ctx, j, sel, first, count)
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	compared := 0
	j.Walk(ctx, of.Segment, steps, func(v *archive.Version, e error) bool {
		if e == nil && !v.AboutStream() {
			e = s.add(ctx, v, &compared)
		}
		err = e
		return err == nil
	})
	return err
}

// add adds a line.
func (s *Sample) add(ctx context.Context, v *archive.Version, compared *int) error {
	name := v.StreamName().Whole().String()
	of := s.entries[name]
	if of == nil {
		of = &sampled{changed: make(map[string]*changed)}
		s.entries[name] = of
	}
	one := Count{1, int64(len(v.Raw)) + 1}
	s.Count.add(one)
	of.Count.add(one)
	of.managed += member("managedFields", rawjson.At(v.Object, []byte("/metadata/managedFields")))
	of.applied += member(object.LastApplied, rawjson.At(v.Object, lastApplied))
	of.changes += member("changes", v.Value(line.FieldChanges)) +
		member("changesOmitted", v.Value(line.FieldChangesOmitted))
	if metadata := rawjson.Pick(v.Object, "metadata")[0]; metadata != nil {
		of.notMetadata += int64(len(v.Object) - len(`{"metadata":}`) - len(metadata))
	}
	if v.Type() != line.Modified {
		return nil
	}
	operations := v.Value(line.FieldChanges)
	if operations == nil && !v.Incomplete() && v.Value(line.FieldChangesOmitted) == nil {
		if *compared++; *compared > compareLines {
			s.partial = true
			return nil
		}
		before, err := v.Previous(ctx)
		switch {
		case err != nil && !errors.Is(err, archive.ErrRemoved):
			return err
		case err == nil && before != nil && !before.Incomplete() && len(before.Object) > 0 && len(v.Object) > 0:
			if operations, err = changes.Append(nil, before.Object, v.Object); err != nil {
				return fmt.Errorf("compare line %d with line %d: %w", v.Seq, before.Seq, err)
			}
		}
	}
	if of.modified.add(one); operations == nil {
		return nil
	}
	paths, quiet := changedFields(v.Fields, operations)
	key := strings.Join(paths, "\n")
	is := of.changed[key]
	if is == nil {
		is = new(changed)
		of.changed[key] = is
	}
	is.add(one)
	if quiet {
		is.quiet++
	}
	return nil
}

var lastApplied = append([]byte("/metadata/annotations/"), fieldpath.Escaped([]byte(object.LastApplied))...)

// member returns the bytes of a member of an object, with the comma before it.
func member(name string, value []byte) int64 {
	if value == nil {
		return 0
	}
	return int64(len(name) + len(`,"":`) + len(value))
}

// changedFields returns the fields that changed as ignoreFields has them, each once, in order, without those that it
// always ignores; and whether the changes say no more than that time has passed, or what controllers note for
// themselves.
func changedFields(l *line.Fields, operations []byte) (paths []string, quiet bool) {
	switch rows.NoiseOf(l, operations) {
	case rows.Heartbeat, rows.RevisionOnly, rows.MetadataOnly:
		quiet = true
	}
	times := true
	for operation := range rawjson.Elements(operations) {
		v := rawjson.Pick(operation, "path", "old", "value")
		path := pathOf(l.Object, rawjson.Inside(v[0]))
		if slices.ContainsFunc(ignored, func(field string) bool { return within(path, field) }) {
			continue
		}
		paths, times = append(paths, path), times && isTime(v[1]) && isTime(v[2])
	}
	slices.Sort(paths)
	return slices.Compact(paths), quiet || times
}

// ignored are the fields that ignoreFields ignores whatever it has.
var ignored = []string{"metadata.resourceVersion", "metadata.generation", "metadata.managedFields"}

// within reports whether a path is that of a field, or of what is in it.
func within(path, field string) bool {
	rest, is := strings.CutPrefix(path, field)
	return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func isTime(value []byte) bool {
	var t time.Time
	return t.UnmarshalText(rawjson.Inside(value)) == nil
}

// pathOf returns a JSON Pointer into an object as the config has paths.
func pathOf(object, pointer []byte) string {
	var path []byte
	for begin := 1; begin <= len(pointer); {
		end := len(pointer)
		if n := bytes.IndexByte(pointer[begin:], '/'); n >= 0 {
			end = begin + n
		}
		if step := pointer[begin:end]; rawjson.IsIndex(step) && isList(rawjson.At(object, pointer[:begin-1])) {
			path = append(path, "[*]"...)
		} else {
			path = fieldpath.AppendKey(path, string(fieldpath.Unescaped(rawjson.Unquote(nil, step))))
		}
		begin = end + 1
	}
	return string(path)
}

// isList reports whether a value is a list, or none: then it was one before.
func isList(value []byte) bool { return len(value) == 0 || value[0] == '[' }
