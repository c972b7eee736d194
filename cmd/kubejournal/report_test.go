package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kubejournal/test/journaltest"
)

// reported is what a page has, as its script reads it.
type reported struct {
	Doubts, Notes []string
	Objects       []struct {
		R, K, S, N, U, Y string
		L                int
		B                []struct {
			T int64
			L int
		}
	}
	Versions []reportedVersion
	Why      map[int]string
	Symptoms []struct {
		V int
		R []struct {
			V int
			P [3]int
		}
	}
}

type reportedVersion struct {
	Q    uint64
	T    int64
	Y, I string
	N    bool
	O    int
	D    [][3]any
}

// theReport returns a page, and what it has.
func theReport(t *testing.T, status int, args ...string) (page string, is reported) {
	t.Helper()
	var out, notes bytes.Buffer
	if got := run(t.Context(), append([]string{"report", "-o", "-"}, args...), strings.NewReader(""), &out, &notes); got != status {
		t.Fatalf("report %q: status %d, not %d: %s", args, got, status, notes.String())
	}
	return out.String(), reportedIn(t, out.String())
}

// dataIn unpacks the JSON of a page.
func dataIn(t *testing.T, page string) string {
	t.Helper()
	data := regexp.MustCompile(`(?s)<script type="application/json" id="data">"(.*?)"</script>`).FindStringSubmatch(page)
	if data == nil {
		t.Fatalf("no data in %s", page)
	}
	unpacked, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data[1])))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func reportedIn(t *testing.T, page string) (is reported) {
	t.Helper()
	if err := json.Unmarshal([]byte(dataIn(t, page)), &is); err != nil {
		t.Fatal(err)
	}
	for _, v := range is.Versions {
		if v.O >= len(is.Objects) {
			t.Fatalf("version %d is of object %d of %d", v.Q, v.O, len(is.Objects))
		}
	}
	return is
}

// A page has the versions that history has, with the objects that its lines have, and the same doubts.
func TestReportSaysWhatHistorySays(t *testing.T) {
	sample := filepath.Join(root, "test", "sample", "journal.jsonl")
	for _, selection := range [][]string{
		{}, {"-n", "shop"}, {"deploy/web", "-n", "shop", "--related"}, {"pods,secrets"},
		{"-n", "shop", "--since", "2026-11-23T10:22:00Z", "--until", "2026-11-23T10:22:20Z"},
		{"nodes", "--since", "2026-11-23T10:22:06Z", "--until", "2026-11-23T10:22:08Z"},
	} {
		var out, notes bytes.Buffer
		args := append(slices.Clone(selection), "--journal", sample)
		status := run(t.Context(), append([]string{"history", "--all", "-o", "json"}, args...), strings.NewReader(""), &out, &notes)
		_, page := theReport(t, status, args...)
		lines := map[uint64]string{}
		objects := map[uint64]map[string]any{}
		for text := range strings.Lines(out.String()) {
			var l struct {
				Seq                                           uint64
				Type, Resource, Group, Namespace, Name, Cause string
				Object                                        map[string]any
			}
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			lines[l.Seq] = fmt.Sprint(l.Type, " ", l.Namespace, "/", l.Name)
			objects[l.Seq] = l.Object
		}
		texts, have := map[int][]string{}, 0
		for i, o := range page.Objects {
			texts[i] = strings.SplitAfter(o.Y, "\n")
			texts[i] = texts[i][:len(texts[i])-1]
		}
		for _, v := range page.Versions {
			is := v.Y + " /"
			if v.O >= 0 {
				is = fmt.Sprint(v.Y, " ", page.Objects[v.O].S, "/", page.Objects[v.O].N)
			}
			if lines[v.Q] != is {
				t.Errorf("%q: seq %d is %q on the page, and %q in history", selection, v.Q, is, lines[v.Q])
			}
			delete(lines, v.Q)
			if v.O < 0 {
				continue
			}
			if v.I == "" {
				for _, h := range slices.Backward(v.D) {
					at, n := int(h[0].(float64)), int(h[1].(float64))
					come := strings.SplitAfter(h[2].(string), "\n")
					texts[v.O] = slices.Replace(texts[v.O], at, at+n, come[:len(come)-1]...)
				}
				if have++; have%7 != 1 {
					continue // reading YAML takes long
				}
				if got, want := plainYAML(t, texts[v.O]), objects[v.Q]; !sameObject(got, want) {
					t.Errorf("%q: seq %d is\n%v\non the page, and\n%v\nin the journal", selection, v.Q, got, want)
				}
			}
		}
		if len(lines) > 0 {
			t.Errorf("%q: history has %d lines that the page does not have: %v", selection, len(lines), lines)
		}
		if len(page.Versions) > 0 && have == 0 {
			t.Errorf("%q: the page has no YAML", selection)
		}
		var said []string
		for text := range strings.Lines(notes.String()) {
			said = append(said, strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, "kubejournal: "), "not covered: ")))
		}
		said = slices.DeleteFunc(said, func(s string) bool {
			return strings.HasPrefix(s, "nothing changed") || strings.HasPrefix(s, "the journal has no line")
		})
		if on := slices.Concat(page.Doubts, page.Notes); !slices.ContainsFunc(said, func(s string) bool { return !slices.Contains(on, s) }) {
			continue
		}
		t.Errorf("%q: history says %q, and the page %q %q", selection, said, page.Doubts, page.Notes)
	}
}

// theLine is what a test reads of a line of a journal by itself.
type theLine struct {
	Seq                              uint64
	Time, WrittenAt                  time.Time
	Type, Kind, Namespace, Name, UID string
	ResourceVersion                  string
	Object                           struct {
		Metadata struct{ DeletionTimestamp string }
		Status   struct {
			Phase             string
			ContainerStatuses []struct {
				State struct{ Waiting struct{ Reason string } }
			}
		}
	}
}

// sampleLines returns the lines of the sample about objects, by seq.
func sampleLines(t *testing.T) map[uint64]theLine {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "test", "sample", "journal*.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]theLine{}
	for _, path := range files {
		var text io.Reader
		file, err := os.Open(path)
		if text = file; err == nil && strings.HasSuffix(path, ".gz") {
			text, err = gzip.NewReader(file)
		} else if !strings.HasSuffix(path, ".jsonl") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for d := json.NewDecoder(text); ; {
			var l theLine
			if err := d.Decode(&l); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if l.UID != "" {
				all[l.Seq] = l
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// An object has as many marks as the journal has lines about it in that time, each where the change was made, and its
// bar is bad while a pod fails, and ends with the object.
func TestReportMarksAreLines(t *testing.T) {
	lines := sampleLines(t)
	for until, args := range map[string][]string{"": nil, "2026-11-23T10:22:03Z": {"--until", "2026-11-23T10:22:03Z"}} {
		var out, notes bytes.Buffer
		args = append(args, "--journal", filepath.Join(root, "test", "sample", "journal.jsonl"), "-o", "-")
		if status := run(t.Context(), append([]string{"report"}, args...), strings.NewReader(""), &out, &notes); status != 0 && status != 3 {
			t.Fatalf("status %d: %s", status, notes.String())
		}
		page := reportedIn(t, out.String())
		end, _ := time.Parse(time.RFC3339, until)
		want, got := map[string]int{}, map[string]int{}
		for _, l := range lines {
			made := l.Time
			if !l.WrittenAt.IsZero() && l.WrittenAt.Before(made.Add(-5*time.Second)) {
				made = l.WrittenAt
			}
			if until == "" || !made.After(end) {
				want[l.UID]++
			}
		}
		bad, gone := 0, 0
		for n, v := range page.Versions {
			if v.O < 0 {
				continue
			}
			o, l := page.Objects[v.O], lines[v.Q]
			got[o.U]++
			if at := time.UnixMilli(v.T); l.UID != o.U || at.After(l.Time) || at.Before(l.Time.Truncate(time.Millisecond)) && at.Before(l.WrittenAt) {
				t.Errorf("the mark of seq %d is at %s, and of %s", v.Q, at, o.U)
			}
			level, next := -9, slices.IndexFunc(page.Versions[n+1:], func(w reportedVersion) bool {
				return w.O == v.O && w.T == v.T
			})
			if next >= 0 {
				continue // that it is the state of
			}
			for _, b := range o.B {
				if b.T <= v.T {
					level = b.L
				}
			}
			failing := l.Object.Status.Phase == "Failed"
			for _, c := range l.Object.Status.ContainerStatuses {
				failing = failing || slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"}, c.State.Waiting.Reason)
			}
			switch {
			case l.Kind == "Event":
			case l.Type == "DELETED":
				if gone++; level != -1 {
					t.Errorf("seq %d deletes %s, whose bar goes on with %d", v.Q, o.N, level)
				}
			case l.Kind == "Pod" && l.Object.Metadata.DeletionTimestamp == "" && (level == 3) != failing && (failing || l.Object.Status.Phase == "Pending"):
				t.Errorf("seq %d of pod %s, failing %v, has a bar of %d", v.Q, o.N, failing, level)
			case failing:
				bad++
			}
		}
		if !maps.Equal(want, got) {
			t.Errorf("until %q: %d objects have marks, and %d lines", until, len(got), len(want))
		}
		if until == "" && (bad == 0 || gone == 0) {
			t.Errorf("%d failing and %d deleted", bad, gone)
		}
	}
}

// What a version's panel says of why, and of who wrote each line, is what the commands say of it.
func TestReportPanelsAreAnswers(t *testing.T) {
	sample := filepath.Join(root, "test", "sample", "journal.jsonl")
	_, page := theReport(t, 3, "-n", "shop", "--journal", sample)
	answer := func(v int, args ...string) string {
		o := page.Objects[page.Versions[v].O]
		args = append(args, o.R+"/"+o.N, "--at", fmt.Sprintf("seq:%d", page.Versions[v].Q), "--journal", sample)
		if o.S != "" {
			args = append(args, "-n", o.S)
		}
		var out, notes bytes.Buffer
		if status := run(t.Context(), args, strings.NewReader(""), &out, &notes); status != 0 && status != 3 {
			t.Fatalf("%q: status %d: %s", args, status, notes.String())
		}
		return out.String() + notes.String()
	}
	if len(page.Why) < 20 {
		t.Errorf("the causes of %d versions", len(page.Why))
	}
	for v, why := range page.Why {
		if got, want := strings.Fields(why), strings.Fields(answer(v, "why")); !slices.Equal(got, want) {
			t.Errorf("seq %d: the page says\n%s\nand why\n%s", page.Versions[v].Q, why, want)
		}
	}
	texts, compared := map[int][]string{}, 0
	for v, is := range page.Versions {
		if is.O < 0 || is.I != "" {
			continue
		}
		o := page.Objects[is.O]
		if texts[is.O] == nil {
			texts[is.O] = slices.Collect(strings.Lines(o.Y))
		}
		for _, h := range slices.Backward(is.D) {
			at, n := int(h[0].(float64)), int(h[1].(float64))
			texts[is.O] = slices.Replace(texts[is.O], at, at+n, slices.Collect(strings.Lines(h[2].(string)))...)
		}
		if o.R != "deployments" && o.R != "configmaps" || is.Y == "DELETED" {
			continue
		}
		said := map[string]bool{}
		for text := range strings.Lines(answer(v, "blame", "-o", "wide")) {
			if before, line, is := strings.Cut(text, "| "); is {
				words := strings.Fields(before)
				said[words[len(words)-1]+"\t"+line] = true
			}
		}
		for _, text := range texts[is.O] {
			if who, _, _ := strings.Cut(text, "\t"); who == "" || strings.Trim(who, "0123456789") != "" {
				continue // before the page, or not known exactly
			}
			if compared++; !said[text] {
				t.Errorf("seq %d: the page has %q, and blame does not", is.Q, text)
			}
		}
	}
	if compared < 500 {
		t.Errorf("%d lines compared", compared)
	}
}

// plainYAML reads the lines of a version without what is before each: who wrote it.
func plainYAML(t *testing.T, lines []string) (object map[string]any) {
	t.Helper()
	var text strings.Builder
	for _, l := range lines {
		_, l, _ = strings.Cut(l, "\t")
		text.WriteString(l)
	}
	if err := yaml.Unmarshal([]byte(text.String()), &object); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return object
}

// sameObject compares two objects, without what a page leaves out.
func sameObject(page, journal map[string]any) bool {
	texts := make([]string, 2)
	for n, o := range []map[string]any{page, journal} {
		if metadata, ok := o["metadata"].(map[string]any); ok {
			for _, key := range []string{"managedFields", "resourceVersion", "generation"} {
				delete(metadata, key)
			}
			if annotations, ok := metadata["annotations"].(map[string]any); ok {
				if delete(annotations, "kubectl.kubernetes.io/last-applied-configuration"); len(annotations) == 0 {
					delete(metadata, "annotations")
				}
			}
		}
		if status, ok := o["status"].(map[string]any); ok {
			if delete(status, "observedGeneration"); len(status) == 0 {
				delete(o, "status")
			}
		}
		delete(o, "apiVersion") // lists leave both out
		delete(o, "kind")
		text, _ := json.Marshal(o)
		texts[n] = string(text)
	}
	return texts[0] == texts[1]
}

// The change that broke the sample's shop is the first of those before the first symptom.
func TestReportRanks(t *testing.T) {
	_, page := theReport(t, 3, "-n", "shop", "--journal", filepath.Join(root, "test", "sample", "journal.jsonl"))
	if len(page.Symptoms) == 0 || len(page.Symptoms[0].R) == 0 {
		t.Fatal("nothing is ranked")
	}
	first := page.Symptoms[0].R[0]
	if o := page.Objects[page.Versions[first.V].O]; o.R+"/"+o.N != "deployments/web" || first.P != [3]int{3, 2, 2} {
		t.Errorf("the first is %s/%s, by %v", o.R, o.N, first.P)
	}
	lines := sampleLines(t)
	number := func(l theLine) int { n, _ := strconv.Atoi(l.ResourceVersion); return n }
	for _, s := range page.Symptoms {
		last, of := 99, lines[page.Versions[s.V].Q]
		for _, r := range s.R {
			sum, v := r.P[0]+r.P[1]+r.P[2], page.Versions[r.V]
			l := lines[v.Q]
			// Received after the symptom, but written before it.
			earlier := !l.WrittenAt.IsZero() && !l.WrittenAt.After(of.Time) && number(l) < number(of)
			if sum > last || v.N || v.Q == of.Seq || v.Q > of.Seq && !earlier {
				t.Errorf("symptom %d: version %d of rank %d is in the wrong place", of.Seq, v.Q, sum)
			}
			last = sum
		}
	}
}

// Names and values are text on a page, also without its script, and redacted ones are not on it.
func TestReportHostile(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>`
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	name, _ := json.Marshal("web\u202e\u2066\x1b[31m\x00\u009b" + evil)
	var journal strings.Builder
	for n, text := range []string{
		`"type":"ADDED","origin":"watch","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":NAME,"namespace":"shop","uid":"u1","labels":{"app":NAME}},"data":{NAME:"1","a":NAME}}`,
		`"type":"MODIFIED","origin":"watch","manager":NAME,"changes":[{"op":"replace","path":"/data/a","old":NAME,"value":"2"}],"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":NAME,"namespace":"shop","uid":"u1"},"status":{"conditions":[{"type":"Ready","status":"False","reason":NAME}]},"data":{"a":"2"}}`,
		`"type":"DELETED","origin":"watch","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":NAME,"namespace":"shop","uid":"u1","ownerReferences":[{"kind":NAME,"name":NAME,"uid":NAME}]},"data":{"a":"2"}}`,
		`"type":"ADDED","origin":"watch","event":{"type":"Warning","reason":NAME,"message":NAME,"count":1,"regarding":{"kind":NAME,"name":NAME,"namespace":NAME}},"object":{"apiVersion":"v1","kind":"Event","metadata":{"name":NAME,"namespace":"shop","uid":"u1"}}`,
	} {
		fmt.Fprintf(&journal, `{"seq":%d,"time":"2026-11-20T14:00:0%dZ","id":"%d","stream":"configmaps","cluster":%s,"version":"v1","resource":"configmaps","kind":"ConfigMap","namespace":"shop","name":%s,"uid":"u1","resourceVersion":"1%d",%s}`+"\n",
			n+1, n, n, name, name, n, strings.ReplaceAll(text, "NAME", string(name)))
	}
	if err := os.WriteFile(path, []byte(journal.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	page, is := theReport(t, 3, "--journal", path, "--title", evil)
	if len(is.Versions) != 4 {
		t.Errorf("%d versions", len(is.Versions))
	}
	for _, bad := range regexp.MustCompile(`.{30}([^\\]\\u00[0-9a-f]{2}|[\x{80}-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}])`).FindAllString(dataIn(t, page), -1) {
		t.Errorf("the page's data has %q", bad)
	}
	for _, bad := range []string{"<img", "alert(1)</script>", "\u202e"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d scripts", n)
	}
}

// A page of 10,000 versions is made, what is beyond its limit is left out and counted, and bad usage is told.
func TestReportLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 20,050 versions")
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	s := j.Stream("configmaps", "ConfigMap")
	s.Synced()
	for n := range 20_050 {
		s.Put("kubectl", fmt.Sprintf(`{"metadata":{"name":"c-%d","namespace":"shop","uid":"u%d"},"data":{"n":"%d"}}`, n%100, n%100, n))
	}
	j.Stop()
	_, page := theReport(t, 0, "--journal", path)
	if len(page.Versions) != 20_000 || !slices.ContainsFunc(page.Notes, func(s string) bool { return strings.HasPrefix(s, "left out: 5") }) {
		t.Errorf("%d versions, and %q", len(page.Versions), page.Notes)
	}
}

func TestReportUsage(t *testing.T) {
	for args, want := range map[string]string{
		"report": "-o incident.html", "report -o x.html --since 2026-11-20T14:00:00Z --until 2026-11-20T13:00:00Z": "--until is before --since",
	} {
		var out, notes bytes.Buffer
		if status := run(t.Context(), append(strings.Fields(args), "--journal", "journal.jsonl"), strings.NewReader(""), &out, &notes); status != exitUsage || !strings.Contains(notes.String(), want) {
			t.Errorf("%s: status %d, %s", args, status, notes.String())
		}
	}
}
