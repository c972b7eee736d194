package watcher_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// judgedTime is when the writes of judgedHistory begin, one a second.
var judgedTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// judgedHistory is: a is created at 1, changed at 2, 3 and 4, deleted at 7, and created again at 8; b, in another
// namespace, is created at 5; c is created at 6 and loses its label at 9.
func judgedHistory() []fake.Write {
	object := func(version int, namespace, name, uid string, labels map[string]any) fake.Write {
		return fake.Write{Version: uint64(version), Time: judgedTime.Add(time.Duration(version) * time.Second), Object: map[string]any{
			"kind": "Widget",
			"metadata": map[string]any{
				"namespace": namespace, "name": name, "uid": uid, "resourceVersion": fmt.Sprint(version), "labels": labels,
			},
			"spec": map[string]any{"serial": version},
		}}
	}
	app := map[string]any{"app": "a"}
	gone := object(7, "x", "a", "A1", app)
	gone.Deleted = true
	return []fake.Write{
		object(1, "x", "a", "A1", app), object(2, "x", "a", "A1", app), object(3, "x", "a", "A1", app), object(4, "x", "a", "A1", app),
		object(5, "y", "b", "B", app), object(6, "x", "c", "C", app), gone, object(8, "x", "a", "A2", app),
		object(9, "x", "c", "C", map[string]any{}),
	}
}

// judgedLine is a line about a write, told by the stream ten seconds after the last one.
func judgedLine(typ, stream string, w fake.Write) invariant.Line {
	m := metaOf(w.Object)
	object, err := json.Marshal(w.Object)
	if err != nil {
		panic(err)
	}
	return invariant.Line{
		Type: typ, Stream: stream, Time: judgedTime.Add(20 * time.Second).Format(time.RFC3339Nano), Origin: invariant.FromWatch,
		ID:        fmt.Sprintf("%s/%s/%s", m["uid"], m["resourceVersion"], typ),
		Namespace: m["namespace"].(string), Name: m["name"].(string), UID: m["uid"].(string), ResourceVersion: m["resourceVersion"].(string),
		Object: object,
	}
}

// TestJudge has the judge of TestHabits find what is wrong in journals that are made by hand, and nothing in right
// ones.
func TestJudge(t *testing.T) {
	history := judgedHistory()
	const whole, inX, labelled = "widgets.example.com", "widgets.example.com?namespace=x", "widgets.example.com?labelSelector=app%3Da"
	added := func(stream string, version int) invariant.Line {
		return judgedLine(invariant.Added, stream, history[version-1])
	}
	modified := func(stream string, version int) invariant.Line {
		return judgedLine(invariant.Modified, stream, history[version-1])
	}
	deleted := func(stream string, version int) invariant.Line {
		return judgedLine(invariant.Deleted, stream, history[version-1])
	}
	about := func(typ, reason, stream, version string) invariant.Line {
		return invariant.Line{Type: typ, Reason: reason, Stream: stream, ID: stream + "/" + version + "/" + typ, ResourceVersion: version}
	}
	early := func(l invariant.Line) invariant.Line {
		l.Time = judgedTime.Add(6500 * time.Millisecond).Format(time.RFC3339Nano)
		return l
	}
	changed := func(l invariant.Line, change func(*invariant.Line)) invariant.Line {
		change(&l)
		return l
	}
	expired := []invariant.Line{about(invariant.Gap, "Expired", whole, "8")}
	for name, c := range map[string]struct {
		lines     []invariant.Line
		positions []string
		unlike    bool // what the server has
		want      []string
	}{
		"right": {
			lines: []invariant.Line{
				added(whole, 2), modified(whole, 4), added(whole, 5), added(whole, 6), about(invariant.Synced, "", whole, "6"),
				deleted(whole, 7), added(whole, 8), modified(whole, 9),
			},
			positions: []string{"6", "7", "7", "9", "opaque", "10"},
		},
		"right, of a namespace": {lines: []invariant.Line{added(inX, 6), added(inX, 8), modified(inX, 9)}},
		"right, left a selection": {lines: []invariant.Line{
			added(labelled, 5), added(labelled, 6), added(labelled, 8), changed(deleted(labelled, 6), func(l *invariant.Line) { l.ResourceVersion = "9" }),
		}},
		"right, put back": {
			lines: []invariant.Line{
				added(whole, 5), added(whole, 6), added(whole, 8), about(invariant.Gap, invariant.Ahead, whole, "8"),
				modified(whole, 5), modified(whole, 6), modified(whole, 8), about(invariant.Synced, "", whole, "8"), modified(whole, 9),
			},
			positions: []string{"12", "8"},
		},
		"a DELETED of what is there":              {lines: []invariant.Line{added(inX, 6), added(inX, 8), deleted(inX, 8)}, unlike: true, want: []string{trueLines}},
		"a DELETED before the deletion":           {lines: []invariant.Line{early(added(inX, 4)), early(deleted(inX, 7)), added(inX, 8), added(inX, 6), modified(inX, 9)}, want: []string{trueLines}},
		"a DELETED of an object's earlier life":   {lines: []invariant.Line{added(inX, 8), deleted(inX, 7)}, unlike: true, want: []string{trueLines}},
		"a DELETED at a version that never was":   {lines: []invariant.Line{added(inX, 4), changed(deleted(inX, 7), func(l *invariant.Line) { l.ResourceVersion = "5" }), added(inX, 8), added(inX, 9)}, want: []string{trueLines}},
		"a DELETED twice":                         {lines: []invariant.Line{added(inX, 4), deleted(inX, 7), changed(deleted(inX, 7), func(l *invariant.Line) { l.ID += "2" })}, unlike: true, want: []string{trueLines}},
		"an id twice":                             {lines: []invariant.Line{added(whole, 4), added(whole, 5), added(whole, 5)}, unlike: true, want: []string{trueLines, uniqueIDs}},
		"a GAP twice":                             {lines: []invariant.Line{about(invariant.Gap, "Expired", whole, "3"), about(invariant.Gap, "Expired", whole, "3")}, unlike: true, want: []string{uniqueIDs}},
		"an ADDED of what the reader knows":       {lines: []invariant.Line{added(whole, 3), added(whole, 4)}, unlike: true, want: []string{trueLines}},
		"an ADDED under a name that is taken":     {lines: []invariant.Line{added(whole, 4), added(whole, 8)}, unlike: true, want: []string{trueLines}},
		"a MODIFIED that is older":                {lines: []invariant.Line{added(whole, 1), modified(whole, 3), modified(whole, 2)}, unlike: true, want: []string{trueLines}},
		"a MODIFIED after the DELETED":            {lines: []invariant.Line{added(whole, 1), deleted(whole, 7), modified(whole, 3)}, unlike: true, want: []string{trueLines}},
		"a MODIFIED before the write":             {lines: []invariant.Line{early(modified(whole, 8))}, unlike: true, want: []string{trueLines}},
		"an object of another namespace":          {lines: []invariant.Line{added(inX, 5)}, unlike: true, want: []string{trueLines}},
		"an object that the selector leaves out":  {lines: []invariant.Line{added(labelled, 9)}, unlike: true, want: []string{trueLines}},
		"an object of another kind":               {lines: []invariant.Line{changed(added(whole, 5), func(l *invariant.Line) { l.Object = json.RawMessage(`{"kind":"Other","spec":{"serial":5}}`) })}, unlike: true, want: []string{trueLines}},
		"other content":                           {lines: []invariant.Line{changed(added(whole, 5), func(l *invariant.Line) { l.Object = added(whole, 6).Object })}, unlike: true, want: []string{trueLines}},
		"another uid":                             {lines: []invariant.Line{changed(added(whole, 5), func(l *invariant.Line) { l.UID = "A1" })}, unlike: true, want: []string{trueLines}},
		"another version":                         {lines: []invariant.Line{changed(added(whole, 5), func(l *invariant.Line) { l.ResourceVersion = "6" })}, unlike: true, want: []string{trueLines}},
		"a stream that there is not":              {lines: []invariant.Line{added("widgets", 5)}, unlike: true, want: []string{trueLines}},
		"a position that goes back":               {lines: []invariant.Line{about(invariant.Gap, "Expired", whole, "8")}, positions: []string{"9", "8", "9"}, unlike: true, want: []string{noWayBack}},
		"a position that goes back after a GAP":   {lines: []invariant.Line{about(invariant.Gap, invariant.Ahead, whole, "8")}, positions: []string{"9", "8", "9", "8", "8"}, unlike: true, want: []string{noWayBack}},
		"a position after one that is no number":  {lines: expired, positions: []string{"9", "v9", "8", "9"}, unlike: true},
		"an object that is not told of":           {lines: []invariant.Line{added(whole, 8), added(whole, 5)}, unlike: true},
		"an object whose last state is not told":  {lines: []invariant.Line{added(whole, 8), added(whole, 5), added(whole, 6)}, unlike: true},
		"an object whose deletion is not told of": {lines: []invariant.Line{added(labelled, 5), added(labelled, 6), added(labelled, 8)}, unlike: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge()
			for _, stream := range []string{whole, inX, labelled} {
				j.watch(stream).wrote(history)
			}
			positions := c.positions
			if len(positions) > 0 { // the first is shown before the lines are written
				j.at(whole, positions[0])
				positions = positions[1:]
			}
			j.read(c.lines)
			for _, p := range positions {
				j.at(whole, p)
			}
			found := make(map[string]bool)
			for _, f := range j.faults {
				found[f.check] = true
			}
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q: %v", got, c.want, j.faults)
			}
			if s := j.streams[c.lines[0].Stream]; s != nil && (s.replay() != "") != c.unlike {
				t.Errorf("replay: %q", s.replay())
			}
		})
	}
}
