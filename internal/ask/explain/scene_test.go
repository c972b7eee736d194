package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/coverage"
)

var update = flag.Bool("update", false, "write the answers of the scenes")

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// TestScenes asks the questions of testdata/*.txtar. A scene has what happened, a question and its answer:
//
//	TIME TYPE RESOURCE/NAME uid=U [by=MANAGER[/SUBRESOURCE]] [in=NAMESPACE] [of=KIND/NAME/UID]... [deleting=GRACE]
//	    [holds=FINALIZER]... [rv=N] [origin=ORIGIN] [stream=STREAM] [person=USER[/IMPERSONATED]] [match=MATCH]
//	    [{MERGE PATCH}]
//	TIME EVENT KIND/NAME/UID REASON by=MANAGER MESSAGE
//	TIME GAP STREAM since=TIME
//	TIME HELD STREAM KEY, which the stream's entry in the config has
//	{a line as JSON}
//
// An object is in namespace shop, if it is in any, and keeps what earlier lines of its uid have given it. deleting
// gives it a deletionTimestamp, so many seconds later.
func TestScenes(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d scenes: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			scene, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var s stage
			for l := range strings.Lines(part(scene, "journal")) {
				if err := s.play(strings.TrimSpace(l)); err != nil {
					t.Fatalf("%s: %v", l, err)
				}
			}
			var got bytes.Buffer
			for q := range strings.Lines(part(scene, "question")) {
				s.ask(t, strings.Fields(q), &got)
			}
			if want := part(scene, "answer"); want == got.String() {
				return
			} else if !*update {
				t.Fatalf("want\n%s\ngot\n%s", want, got.String())
			}
			scene.Files = slices.DeleteFunc(scene.Files, func(f txtar.File) bool { return f.Name == "answer" })
			scene.Files = append(scene.Files, txtar.File{Name: "answer", Data: got.Bytes()})
			if err := os.WriteFile(path, txtar.Format(scene), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func part(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// stage is a journal that is being written.
type stage struct {
	lines   bytes.Buffer
	seq, rv int
	objects map[string]map[string]any // by uid
	cover   map[string]*coverage.Stream
	end     time.Time
	held    [][2]string // streams, and keys of the config
	people  []audit.Entry
}

func clockOf(text string) (time.Time, error) { return time.Parse(time.RFC3339, "2026-11-20T"+text+"Z") }

func (s *stage) play(text string) error {
	switch {
	case text == "" || strings.HasPrefix(text, "#"):
		return nil
	case strings.HasPrefix(text, "{"):
		s.seq++
		fmt.Fprintln(&s.lines, text)
		return nil
	}
	text, patch, patched := strings.Cut(text, " {")
	words := strings.Fields(text)
	at, err := clockOf(words[0])
	if err != nil || len(words) < 3 {
		return errors.Join(err, fmt.Errorf("%d words", len(words)))
	}
	s.seq++
	s.rv++
	l := map[string]any{"seq": s.seq, "time": at.Format("2006-01-02T15:04:05.000000000Z"), "type": words[1], "origin": "watch"}
	switch words[1] {
	case "HELD":
		s.held = append(s.held, [2]string{words[2], words[3]})
		s.seq, s.rv = s.seq-1, s.rv-1
		return nil
	case "GAP":
		return s.gap(l, words[2], at, words[3])
	case "EVENT":
		l["type"] = "ADDED"
		return s.event(l, words[2:], at)
	}
	set := map[string][]string{}
	for _, w := range words[3:] {
		key, value, _ := strings.Cut(w, "=")
		set[key] = append(set[key], value)
	}
	get := func(key string) string { return strings.Join(set[key], " ") }
	resource, name, _ := strings.Cut(words[2], "/")
	r, err := resourceOf(resource)
	if err != nil {
		return err
	}
	uid := get("uid")
	o := s.objects[uid]
	metadata := map[string]any{}
	if o == nil {
		o = map[string]any{"apiVersion": strings.TrimPrefix(r.Group+"/"+r.Version, "/"), "kind": r.Kind, "metadata": metadata}
		metadata["name"], metadata["uid"], metadata["creationTimestamp"] = name, uid, at.Format(time.RFC3339)
		if r.Namespaced {
			metadata["namespace"] = "shop"
			if in := get("in"); in != "" {
				metadata["namespace"] = in
			}
		}
		if s.objects == nil {
			s.objects = map[string]map[string]any{}
		}
		s.objects[uid] = o
	}
	metadata = o["metadata"].(map[string]any)
	for _, ref := range set["of"] {
		of := strings.Split(ref, "/")
		kind, err := kindOf(of[0])
		if err != nil {
			return err
		}
		refs, _ := metadata["ownerReferences"].([]any)
		metadata["ownerReferences"] = append(refs, map[string]any{
			"apiVersion": strings.TrimPrefix(kind.Group+"/"+kind.Version, "/"), "kind": kind.Kind, "name": of[1], "uid": of[2],
			"controller": len(refs) == 0 && kind.Kind != "ConfigMap",
		})
	}
	if holds, ok := set["holds"]; ok {
		metadata["finalizers"] = slices.DeleteFunc(anys(holds), func(f any) bool { return f == "" })
	}
	if grace := get("deleting"); grace != "" {
		seconds, err := strconv.Atoi(grace)
		if err != nil {
			return err
		}
		metadata["deletionTimestamp"] = at.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)
		metadata["deletionGracePeriodSeconds"] = seconds
	}
	if patched {
		var with map[string]any
		if err := json.Unmarshal([]byte("{"+patch), &with); err != nil {
			return err
		}
		merge(o, with)
	}
	if rv := get("rv"); rv != "" {
		if s.rv, err = strconv.Atoi(rv); err != nil {
			return err
		}
	}
	stream := strings.TrimSuffix(r.Resource+"."+r.Group, ".")
	if is := get("stream"); is != "" {
		stream = is
	}
	l["stream"], l["group"], l["version"], l["resource"], l["kind"] = stream, r.Group, r.Version, r.Resource, r.Kind
	l["name"], l["uid"], l["resourceVersion"], l["namespace"] = name, uid, strconv.Itoa(s.rv), metadata["namespace"]
	l["manager"], l["subresource"], _ = strings.Cut(get("by"), "/")
	metadata["resourceVersion"] = strconv.Itoa(s.rv)
	l["object"] = o
	if origin := get("origin"); origin != "" {
		l["origin"] = origin
		if words[1] == "DELETED" && origin == "relist" {
			l["finalStateKnown"] = false
			l["object"] = map[string]any{"kind": r.Kind, "metadata": map[string]any{"name": name, "uid": uid}}
		}
	}
	if user, as, _ := strings.Cut(get("person"), "/"); user != "" {
		verb := "patch"
		if words[1] == "DELETED" || metadata["deletionTimestamp"] != nil {
			verb = "delete"
		}
		id := fmt.Sprint(uid, "/", s.rv, "/", words[1])
		s.people = append(s.people, audit.Entry{Seq: uint64(s.seq), Line: audit.LineSum([]byte(id)), Person: audit.Person{
			User: user, Impersonated: as, Agent: "kubectl/v1.37 (linux/amd64)", Verb: verb, AuditID: fmt.Sprintf("3f1c0e%d", s.seq),
			Match: cmp.Or(audit.Match(get("match")), audit.Exact),
		}})
	}
	return s.write(l, stream, at)
}

func anys(all []string) (list []any) {
	for _, one := range all {
		list = append(list, one)
	}
	return list
}

// write writes a line, which confirms its stream.
func (s *stage) write(l map[string]any, stream string, at time.Time) error {
	maps.DeleteFunc(l, func(_ string, v any) bool { return v == "" || v == nil })
	l["id"] = fmt.Sprint(l["uid"], "/", l["resourceVersion"], "/", l["type"])
	is, seq := l["object"], l["seq"]
	delete(l, "object")
	delete(l, "seq")
	head, err := json.Marshal(l)
	if err != nil {
		return err
	}
	head = fmt.Appendf(nil, `{"seq":%d,%s`, seq, head[1:]) // as kubejournal writes it
	if is != nil {
		object, err := json.Marshal(is)
		if err != nil {
			return err
		}
		head = fmt.Appendf(head[:len(head)-1], `,"object":%s}`, object)
	}
	s.lines.Write(append(head, '\n'))
	if s.cover == nil {
		s.cover = map[string]*coverage.Stream{}
	}
	if s.cover[stream] == nil {
		begin, err := clockOf("00:00:00")
		s.cover[stream] = &coverage.Stream{Name: stream, Intervals: []coverage.Interval{{From: begin}}}
		if err != nil {
			return err
		}
	}
	if at.After(s.end) {
		s.end = at
	}
	return nil
}

func (s *stage) gap(l map[string]any, stream string, at time.Time, since string) error {
	from, err := clockOf(strings.TrimPrefix(since, "since="))
	if err != nil {
		return err
	}
	r, err := resourceOf(stream)
	if err != nil {
		return err
	}
	l["stream"], l["version"], l["resource"], l["kind"], l["group"] = stream, r.Version, r.Resource, r.Kind, r.Group
	l["reason"], l["fromTime"], l["resourceVersion"] = "Expired", from.Format(time.RFC3339), strconv.Itoa(s.rv)
	delete(l, "origin")
	if err := s.write(l, stream, at); err != nil {
		return err
	}
	c := s.cover[stream]
	last := &c.Intervals[len(c.Intervals)-1]
	last.To, last.End = from, "Expired"
	c.Intervals = append(c.Intervals, coverage.Interval{From: at})
	return nil
}

// event writes the line of an Event.
func (s *stage) event(l map[string]any, words []string, at time.Time) error {
	about := strings.Split(words[0], "/")
	uid := fmt.Sprint("event-", s.seq)
	l["stream"], l["version"], l["resource"], l["kind"], l["namespace"] = "events", "v1", "events", "Event", "shop"
	l["name"], l["uid"], l["resourceVersion"] = about[1]+"."+uid, uid, strconv.Itoa(s.rv)
	l["manager"], _, _ = strings.Cut(strings.TrimPrefix(words[2], "by="), "/")
	regarding := map[string]any{"kind": about[0], "namespace": "shop", "name": about[1], "uid": about[2]}
	typ := "Normal"
	if strings.HasPrefix(words[1], "!") {
		typ, words[1] = "Warning", words[1][1:]
	}
	l["event"] = map[string]any{
		"reason": words[1], "message": strings.Join(words[3:], " "), "type": typ, "lastTime": at.Format(time.RFC3339),
		"regarding": regarding,
	}
	l["object"] = map[string]any{"involvedObject": regarding, "metadata": map[string]any{"name": l["name"], "uid": uid}}
	return s.write(l, "events", at)
}

// resourceOf returns a resource by its name, short name or kind, with a group for one that is not Kubernetes' own.
func resourceOf(name string) (builtin.Resource, error) {
	word, group, custom := strings.Cut(name, ".")
	for r := range builtin.All() {
		is := r.Resource == word || slices.Contains(r.ShortNames, word) || strings.EqualFold(r.Kind, word)
		if is && (!custom || r.Group == group) && r.Group != "events.k8s.io" {
			return r, nil
		}
	}
	if !custom {
		return builtin.Resource{}, fmt.Errorf("no resource %s", name)
	}
	kind := strings.ToUpper(word[:1]) + strings.TrimSuffix(word[1:], "s")
	return builtin.Resource{Group: group, Version: "v1", Resource: word, Kind: kind, Namespaced: true}, nil
}

func kindOf(kind string) (builtin.Resource, error) {
	if word, group, custom := strings.Cut(kind, "."); custom {
		return resourceOf(strings.ToLower(word) + "s." + group)
	}
	return resourceOf(kind)
}

// merge is JSON Merge Patch.
func merge(o, with map[string]any) {
	for key, value := range with {
		if value == nil {
			delete(o, key)
			continue
		}
		of, is := o[key].(map[string]any)
		if v, ok := value.(map[string]any); ok && is {
			merge(of, v)
			continue
		}
		o[key] = value
	}
}

// ask writes the answer to a question as a pipe gets it.
func (s *stage) ask(t *testing.T, args []string, got *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, s.lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Merge(path, 0, s.people); err != nil {
		t.Fatal(err)
	}
	j, err := archive.Open(path, func(text string) { fmt.Fprintln(got, "notice:", text) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var all []coverage.Stream
	for _, name := range slices.Sorted(maps.Keys(s.cover)) {
		c := *s.cover[name]
		c.Intervals = slices.Clone(c.Intervals)
		c.Intervals[len(c.Intervals)-1].To = s.end.Add(time.Minute)
		for _, h := range s.held {
			if h[0] == name {
				c.Intervals[0].HeldBack = append(c.Intervals[0].HeldBack, h[1])
			}
		}
		all = append(all, c)
	}
	j.SetCoverage(all)
	w, width := Why{Format: "wide"}, 0
	selection := &argument.Selection{Namespaces: []string{"shop"}}
	var names []string
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "--at":
			if w.At, err = argument.ParseMoment(value, s.end); err != nil {
				t.Fatal(err)
			}
		case "-n":
			selection.Namespaces = []string{value}
		case "-o":
			w.Format = value
		case "--width":
			if width, err = strconv.Atoi(value); err != nil {
				t.Fatal(err)
			}
		default:
			names = append(names, arg)
		}
	}
	if selection.Objects, err = argument.Objects(names); err != nil {
		t.Fatal(err)
	}
	if err := j.Resolve(t.Context(), selection); err != nil {
		t.Fatal(err)
	}
	err = w.Print(t.Context(), &answer.Asked{
		Journal: question.Of(j), Selection: selection, Output: &answer.Output{Writer: got, Notes: got, Width: width},
	}, nil)
	switch {
	case errors.Is(err, answer.ErrNotCovered):
		fmt.Fprintln(got, "exit status 3")
	case err != nil:
		t.Fatal(err)
	}
}
