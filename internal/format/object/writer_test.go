package object

import (
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
)

// fieldsOf returns an object with these managedFields and metadata.
func managedObject(entries string, more ...string) string {
	return `{"metadata":{"name":"a","uid":"u","managedFields":` + entries + strings.Join(more, "") + `}}`
}

func scanned(t *testing.T, r *Renderer, raw string) *Object {
	t.Helper()
	var o Object
	if err := r.Scan([]byte(raw), &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

// said is a Write as manager/subresource at its time.
func (w Write) said() string {
	s := string(w.Manager)
	if len(w.Subresource) > 0 {
		s += "/" + string(w.Subresource)
	}
	if w.At != 0 {
		s += " at " + time.Unix(w.At, 0).UTC().Format(time.TimeOnly)
	}
	return s
}

// Of an object that was just created, the only entry is its creator's.
func TestCreated(t *testing.T) {
	const at = `,"creationTimestamp":"2026-01-02T00:00:09Z"`
	for name, c := range map[string]struct{ entries, want string }{
		"one":              {`[{"manager":"a","time":"2026-01-02T00:00:08Z"}]`, "a at 00:00:09"},
		"none":             {`[]`, " at 00:00:09"},
		"null":             {`null`, " at 00:00:09"},
		"no array":         {`{"manager":"a"}`, " at 00:00:09"},
		"two":              {`[{"manager":"a"},{"manager":"b"}]`, " at 00:00:09"},
		"foreign elements": {`[1,"x",[],null,{"subresource":"s","fieldsV1":{"manager":"x"},"manager":"a"}]`, "a/s at 00:00:09"},
		"repeated":         {`[{"manager":"a"},{"manager":"b"}],"managedFields":[{"manager":"c"}]`, "c at 00:00:09"},
		"repeated, none":   {`[{"manager":"a"}],"managedFields":[]`, " at 00:00:09"},
		"repeated, null":   {`[{"manager":"a"}],"managedFields":null`, " at 00:00:09"},
		"older than it":    {`[{"manager":"a","time":"2026-01-02T00:00:10Z"}]`, ""},
		"too long":         {`[{"manager":"` + strings.Repeat("a", maxName+1) + `"}]`, " at 00:00:09"},
	} {
		for _, shape := range []Shape{{}, {Drop: []string{"metadata.managedFields"}}, {Drop: []string{"metadata"}}} {
			o := scanned(t, mustRenderer(t, podSource, shape), managedObject(c.entries, at))
			if got := o.Created().said(); got != c.want {
				t.Errorf("%s, %v: %q, want %q", name, shape, got, c.want)
			}
		}
	}
	for path, want := range map[string]string{
		"metadata.managedFields":             " at 00:00:09",
		"metadata.managedFields[*].manager":  "/s at 00:00:09",
		"metadata.managedFields[*]":          " at 00:00:09",
		"metadata.creationTimestamp":         "a/s",
		"metadata.managedFields[*].fieldsV1": "a/s at 00:00:09",
	} {
		o := scanned(t, mustRenderer(t, podSource, Shape{Redact: []string{path}}), managedObject(`[{"manager":"a","subresource":"s"}]`, at))
		if got := o.Created().said(); got != want {
			t.Errorf("redacted %s: %q, want %q", path, got, want)
		}
	}
}

// The writer of a version is the one whose entry has a time later than all before; else it is asked who owns what has
// changed.
// writtenOr is Written, or where changes decide, WrittenBy the owner.
func writtenOr(o *Object, before Mark, owner int) Write {
	w, owned := o.Written(before)
	if owned {
		return o.WrittenBy(owner, before, time.Unix(1767312002, 0))
	}
	return w
}

func TestWritten(t *testing.T) {
	const (
		a1     = `{"manager":"a","time":"2026-01-02T00:00:01Z"}`
		a2     = `{"manager":"a","time":"2026-01-02T00:00:02Z"}`
		b1     = `{"manager":"b","subresource":"status","time":"2026-01-02T00:00:01Z"}`
		b2     = `{"manager":"b","subresource":"status","time":"2026-01-02T00:00:02Z"}`
		c2     = `{"manager":"c","time":"2026-01-02T01:00:02+01:00"}`
		scale  = `{"manager":"d","subresource":"scale"}`
		merged = `{"manager":"ancient-changes","time":"2026-01-02T00:00:02Z"}`
		first  = `{"manager":"before-first-apply","time":"2026-01-02T00:00:02Z"}`
		end    = `,"deletionTimestamp":"2026-01-02T00:00:32Z","deletionGracePeriodSeconds":30`
	)
	for name, c := range map[string]struct {
		before, now string
		owner       int
		want        string
	}{
		"later":                 {`[` + a1 + `]`, `[` + a2 + `]`, -1, "a at 00:00:02"},
		"new":                   {`[` + a1 + `]`, `[` + a1 + `,` + b2 + `]`, -1, "b/status at 00:00:02"},
		"brought back":          {`[]`, `[` + a2 + `]`, -1, ""},
		"the first to be known": {`[]`, `[` + a2 + `]`, 0, "a at 00:00:02"},
		"two are later":         {`[` + a1 + `]`, `[` + a2 + `,` + b2 + `]`, 0, ""},
		"another notation":      {`[` + a1 + `]`, `[` + a1 + `,` + c2 + `]`, -1, "c at 00:00:02"},
		"nothing new":           {`[` + a1 + `]`, `[` + a1 + `]`, -1, ""},
		"the same second":       {`[` + a1 + `,` + b1 + `]`, `[` + a1 + `,` + b1 + `]`, 1, "b/status at 00:00:01"},
		"older":                 {`[` + a1 + `,` + b2 + `]`, `[` + a1 + `,` + b2 + `]`, 0, ""},
		"no time":               {`[` + a1 + `]`, `[` + a1 + `,` + scale + `]`, 1, "d/scale"},
		"the newest is gone":    {`[` + a2 + `]`, `[` + scale + `]`, 0, "d/scale"},
		"collected":             {`[` + a1 + `]`, `[` + merged + `,` + a1 + `]`, 0, ""},
		"collected, one later":  {`[` + a1 + `]`, `[` + merged + `,` + a2 + `]`, 0, "a at 00:00:02"},
		"before the first":      {`[` + scale + `]`, `[` + a2 + `,` + first + `]`, 1, ""},
		"apply for the first":   {`[` + scale + `]`, `[` + a2 + `,` + first + `]`, 0, "a at 00:00:02"},
		"deleted":               {`[` + a1 + `]`, `[` + a1 + `]` + end, 0, " at 00:00:02"},
		"deleted, no grace":     {`[` + a1 + `]`, `[` + a1 + `],"deletionTimestamp":"2026-01-02T00:00:32Z"`, 0, " at 00:00:32"},
		"deleted before":        {`[` + a1 + `]` + end, `[` + a2 + `]` + end, 0, "a at 00:00:02"},
		"not a time":            {`[` + a1 + `]`, `[` + a1 + `,{"manager":"b","time":"tomorrow"}]`, -1, ""},
	} {
		r := mustRenderer(t, podSource, Shape{Drop: []string{"metadata.managedFields"}})
		before := scanned(t, r, managedObject(c.before)).Mark(0)
		o := scanned(t, r, managedObject(c.now))
		if got := writtenOr(o, before, c.owner).said(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := writtenOr(o, 0, 0).said(); got != "" {
			t.Errorf("%s: %q although the version before is not known", name, got)
		}
	}
}

// An entry that comes back from an older copy of the object is not the writer's.
func TestWrittenFromCopy(t *testing.T) {
	const old, late = `{"manager":"a","time":"2026-01-02T00:00:01Z"}`, `{"manager":"b","time":"2026-01-02T00:00:02Z"}`
	r := mustRenderer(t, podSource, Shape{})
	mark := scanned(t, r, managedObject(`[`+old+`,`+late+`]`)).Mark(0)
	mark = scanned(t, r, managedObject(`[`+old+`]`)).Mark(mark)
	o := scanned(t, r, managedObject(`[`+old+`,`+late+`]`))
	if got := writtenOr(o, mark, -1).said(); got != "" {
		t.Errorf("%q", got)
	}
}

// Who owns what has changed counts only where the version was received at once: an admission webhook may have changed it
// in the write of another, who has left no trace.
func TestWrittenLongAgo(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{})
	const entries = `[{"manager":"a","time":"2026-01-02T00:00:01Z"},{"manager":"d","subresource":"scale"}]`
	wrote := time.Date(2026, 1, 2, 0, 0, 1, 0, time.UTC)
	mark := scanned(t, r, managedObject(entries)).Mark(0)
	for _, c := range []struct {
		after time.Duration
		owner int
		want  string
	}{
		{999 * time.Millisecond, 0, "a at 00:00:01"}, {-time.Minute, 0, "a at 00:00:01"}, {justNow * time.Second, 0, "a at 00:00:01"},
		{(justNow + 1) * time.Second, 0, ""}, {time.Hour, 0, ""}, {time.Hour, 1, "d/scale"},
	} {
		if got := scanned(t, r, managedObject(entries)).WrittenBy(c.owner, mark, wrote.Add(c.after)).said(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// What a Shape hides is not used in its place: a hidden time is none.
func TestWrittenHidden(t *testing.T) {
	r := mustRenderer(t, podSource, Shape{Redact: []string{"metadata.managedFields[*].time", "metadata.deletionTimestamp"}})
	before := scanned(t, r, managedObject(`[{"manager":"a","time":"2026-01-02T00:00:01Z"}]`)).Mark(0)
	o := scanned(t, r, managedObject(`[{"manager":"a","time":"2026-01-02T00:00:02Z"}]`, `,"deletionTimestamp":"2026-01-02T00:00:02Z"`))
	if got := writtenOr(o, before, -1).said(); got != "" {
		t.Errorf("%q", got)
	}
	if got := writtenOr(o, before, 0).said(); got != "a" {
		t.Errorf("%q", got)
	}
}

// writtenAt of a Kubernetes Event is when it was last observed, unless its time is still to come.
func TestWrittenEvent(t *testing.T) {
	src := Source{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}
	r := mustRenderer(t, src, Shape{})
	for members, want := range map[string]string{
		`"lastTimestamp":"2026-11-20T15:10:20Z"`:                                                    `"writtenAt":"2026-11-20T15:10:20Z"`,
		`"eventTime":"2026-11-20T15:10:20.999999Z"`:                                                 `"writtenAt":"2026-11-20T15:10:20Z"`,
		`"series":{"lastObservedTime":"2026-11-20T15:10:21.5Z"},"eventTime":"2026-11-20T00:00:00Z"`: `"writtenAt":"2026-11-20T15:10:21Z"`,
		`"lastTimestamp":"2026-11-20T15:10:23Z"`:                                                    ``,
		`"lastTimestamp":null`:                                                                      ``,
		`"lastTimestamp":"1960-01-01T00:00:00Z"`:                                                    ``,
	} {
		raw := `{"metadata":{"name":"a"},` + members + `}`
		if l := lineOf(t, r, line.Modified, raw); !strings.Contains(l, want) || want == "" && strings.Contains(l, "writtenAt") {
			t.Errorf("%s: %s, want %s", members, l, want)
		}
		if l := lineOf(t, r, line.Deleted, raw); strings.Contains(l, "writtenAt") {
			t.Errorf("%s: %s", members, l)
		}
	}
}

// The fast way and time.Parse agree on what is a time, and which one.
func TestUnixSeconds(t *testing.T) {
	day := time.Date(1969, 12, 25, 23, 59, 58, 0, time.UTC)
	for ; day.Year() < 2405; day = day.Add(24*time.Hour + 61*time.Second) {
		text := day.Format(time.RFC3339)
		if got := unixSeconds([]byte(text)); got != max(day.Unix(), 0) {
			t.Fatalf("%s: %d, want %d", text, got, day.Unix())
		}
	}
	const now = "2026-11-22T09:08:07Z"
	for i := range len(now) {
		for _, c := range []byte("0123456789-:T.Zt +/;") {
			text := []byte(now)
			text[i] = c
			want := int64(0)
			if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
				want = max(at.Unix(), 0)
			}
			if got := unixSeconds(text); got != want {
				t.Errorf("%s: %d, want %d", text, got, want)
			}
		}
	}
}
