package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// notUTF8 stands for a byte that is not UTF-8, which encoding/json would not write.
const notUTF8 = "<not UTF-8>"

// hostile has names and values as somebody may choose them who wants them to be more than that.
var hostile = map[string]string{
	"newline":      "a\nEVIL: forged",
	"return":       "a\rEVIL",
	"clear":        "a\x1b[2J\x1b[31mEVIL",
	"link":         "a\x1b]8;;http://evil\x1b\\b",
	"clipboard":    "a\x1b]52;c;ZXZpbA==\ab",
	"bell":         "a\a\b\x7fb",
	"C1":           "a\u009b2J\u0085\u009db",
	"bidi":         "a\u202eb\u2066c\u2069\u200f",
	"zero width":   "a\u200bb\u200cc\u200dd\u2060e\ufefff",
	"backspace":    "a\b\b\bEVIL",
	"separators":   "a\u2028EVIL\u2029EVIL",
	"quotes":       `a"b'c`,
	"shell":        "a`id`$(id);id|id&id>x<y!!",
	"dash":         "--config=/dev/null",
	"tab":          "a\tb",
	"NUL":          "a\x00b",
	"not UTF-8":    "a" + notUTF8 + "b",
	"percent":      "a%s%!d(x)%n",
	"backslash":    `a\b\x1b\u001b`,
	"slash":        "../../a/b",
	"long":         strings.Repeat("a\x1b\n", 100<<10/3),
	"empty":        "",
	"blank":        " a ",
	"YAML tag":     "!!binary a",
	"YAML anchor":  "&a",
	"YAML alias":   "*a",
	"YAML map":     "a: b",
	"YAML comment": "a # b",
	"YAML null":    "~",
	"null":         "null",
	"yes":          "yes",
	"hexadecimal":  "0x1f",
	"float":        "1e3",
	"sexagesimal":  "1:30",
	"date":         "2001-01-01",
	"merge":        "<<",
	"document":     "---\n...\n--- ",
	"flow":         "{a: [b",
	"everything":   "a\r\nEVIL\t\x1b[2J\x1b]52;c;eA==\a\b\u009b\u202e\u2028\"'`$(id)\x00" + notUTF8,
}

// hostileJournal is a journal with a mark such as @name@ for each field, and what it usually is.
var hostileJournal = []string{
	`{"seq":1,"time":"2026-11-20T14:00:00Z","type":"ADDED","origin":"@origin=snapshot@","id":"@id=1@","stream":"deployments.apps","cluster":"@cluster=prod@","group":"apps","version":"v1","resource":"deployments","kind":"@kind=Deployment@","namespace":"@namespace=shop@","name":"@name=web@","uid":"@uid=u1@","resourceVersion":"10","object":@object@}`,
	`{"seq":2,"time":"2026-11-20T14:00:01Z","type":"SYNCED","id":"2","stream":"deployments.apps","cluster":"@cluster=prod@","group":"apps","version":"v1","resource":"deployments","kind":"@kind=Deployment@","clusterUID":"@clusterUID=c1@","resourceVersion":"@syncedVersion=11@","count":{"added":1,"modified":0,"deleted":0,"unchanged":0}}`,
	`{"seq":3,"time":"2026-11-20T14:01:00Z","type":"ADDED","origin":"watch","id":"3","stream":"@stream=widgets.example.com@","cluster":"@cluster=prod@","group":"@group=example.com@","version":"@version=v1@","resource":"@resource=widgets@","kind":"Widget","namespace":"@namespace=shop@","name":"gear","uid":"u2","resourceVersion":"12","manager":"@manager=kubectl-set@","subresource":"@subresource=status@","writtenAt":"@writtenAt=2026-11-20T14:00:59Z@","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"gear","namespace":"@namespace=shop@","uid":"u2","resourceVersion":"12","creationTimestamp":"@created=2026-11-20T14:00:59Z@"},"spec":{"size":"@size=3@"}}}`,
	`{"seq":4,"time":"2026-11-20T14:01:01Z","type":"ADDED","origin":"watch","id":"4","stream":"customresourcedefinitions.apiextensions.k8s.io","cluster":"@cluster=prod@","group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","name":"widgets.example.com","uid":"u3","resourceVersion":"13","object":{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com","uid":"u3","resourceVersion":"13"},"spec":{"group":"example.com","names":{"kind":"Widget","plural":"widgets"},"versions":[{"name":"v1","additionalPrinterColumns":[{"name":"@columnName=Size@","type":"string","jsonPath":"@columnPath=.spec.size@"}]}]}}}`,
	`{"seq":5,"time":"2026-11-20T14:02:00Z","type":"MODIFIED","origin":"watch","id":"5","stream":"deployments.apps","cluster":"@cluster=prod@","group":"apps","version":"v1","resource":"deployments","kind":"@kind=Deployment@","namespace":"@namespace=shop@","name":"@name=web@","uid":"@uid=u1@","resourceVersion":"@resourceVersion=14@","manager":"@manager=kubectl-set@","writtenAt":"2026-11-20T14:02:00Z","changes":[{"op":"replace","path":"/data/value","old":"@old=was@","value":"@value=is@"},{"op":"add","path":"@path=/data/x@","value":"@value=is@"},{"op":"@op=replace@","path":"/metadata/labels/@labelKey=app@","old":"x","value":"@label=web@"}],"object":@object2@}`,
	`{"seq":6,"time":"2026-11-20T14:02:01Z","type":"ADDED","origin":"watch","id":"6","stream":"events","cluster":"@cluster=prod@","version":"v1","resource":"events","kind":"Event","namespace":"@namespace=shop@","name":"web.1","uid":"u4","resourceVersion":"15","event":{"reason":"@eventReason=Failed@","message":"@eventMessage=it failed@","type":"@eventType=Warning@","reportingComponent":"@reporter=kubelet@","source":{"component":"@component=kubelet@"},"involvedObject":{"kind":"@eventKind=Deployment@","namespace":"@namespace=shop@","name":"@eventName=web@"}},"object":{"apiVersion":"v1","kind":"Event","metadata":{"name":"web.1","namespace":"@namespace=shop@","uid":"u4","resourceVersion":"15"},"reason":"@eventReason=Failed@","message":"@eventMessage=it failed@","type":"@eventType=Warning@","reportingComponent":"@reporter=kubelet@","source":{"component":"@component=kubelet@"},"involvedObject":{"kind":"@eventKind=Deployment@","namespace":"@namespace=shop@","name":"@eventName=web@"}}}`,
	`{"seq":7,"time":"2026-11-20T14:03:00Z","type":"GAP","id":"7","stream":"deployments.apps","cluster":"@cluster=prod@","group":"apps","version":"v1","resource":"deployments","kind":"@kind=Deployment@","clusterUID":"@clusterUID=c1@","reason":"@reason=Expired@","fromResourceVersion":"@fromVersion=14@","fromTime":"@fromTime=2026-11-20T14:02:30Z@","resourceVersion":"20"}`,
	`{"seq":8,"time":"2026-11-20T14:03:01Z","type":"DELETED","origin":"relist","id":"8","stream":"deployments.apps","cluster":"@cluster=prod@","group":"apps","version":"v1","resource":"deployments","kind":"@kind=Deployment@","namespace":"@namespace=shop@","name":"@name=web@","uid":"@uid=u1@","resourceVersion":"14","finalStateKnown":false,"truncated":true,"truncatedReason":"@truncatedReason=too large@","object":@object2@}`,
	`{"seq":9,"time":"@time=2026-11-20T14:03:02Z@","type":"@type=SYNCED@","id":"9","stream":"deployments.apps","cluster":"@cluster=prod@","group":"apps","version":"v1","resource":"deployments","kind":"@kind=Deployment@","clusterUID":"@clusterUID=c1@","resourceVersion":"21","count":{"added":0,"modified":0,"deleted":1,"unchanged":0}}`,
	`@line={"seq":10}@`,
}

// hostileObject is in the place of @object@, with was in the place of @value@.
const hostileObject = `{"apiVersion":"@apiVersion=apps/v1@","kind":"@objectKind=Deployment@","metadata":{"name":"@name=web@","namespace":"@namespace=shop@",` +
	`"uid":"@uid=u1@","resourceVersion":"10","creationTimestamp":"2026-11-20T13:00:00Z","finalizers":["@finalizer=f@"],"generateName":"@generateName=w-@","labels":{"@labelKey=app@":"@label=web@"},` +
	`"annotations":{"@annotationKey=a@":"@annotation=b@"},"ownerReferences":[{"apiVersion":"v1","kind":"@ownerKind=ReplicaSet@","name":"@ownerName=o@","uid":"u9"}],` +
	`"managedFields":[{"manager":"@manager=kubectl-set@","operation":"Update","apiVersion":"apps/v1","time":"2026-11-20T14:02:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:value":{}}}}]},` +
	`"spec":{"nodeName":"@node=n1@","template":{"spec":{"containers":[{"name":"@container=c@","image":"@image=i:1@"}]}}},` +
	`"status":{"phase":"@phase=Pending@","conditions":[{"type":"@condition=Ready@","status":"@conditionStatus=False@","reason":"@conditionReason=r@","message":"@conditionMessage=m@"}],` +
	`"containerStatuses":[{"name":"@container=c@","image":"@image=i:1@","state":{"waiting":{"reason":"@waitingReason=CrashLoopBackOff@","message":"@waitingMessage=m@"}}}]},` +
	`"data":{"value":"@value=is@","@key=key@":"@value=is@","list":["@value=is@",{"name":"@element=e@","v":1}]}}`

// hostileFields are those of the marks.
func hostileFields() (fields []string) {
	seen := map[string]bool{}
	for _, text := range append(hostileJournal, hostileObject) {
		for rest := text; ; {
			_, behind, found := strings.Cut(rest, "@")
			if !found {
				break
			}
			mark, behind, _ := strings.Cut(behind, "@")
			rest = behind
			if name, _, valued := strings.Cut(mark, "="); valued && !seen[name] {
				seen[name] = true
				fields = append(fields, name)
			}
		}
	}
	return fields
}

// writeHostile writes the journal with a text in some of its fields.
func writeHostile(t *testing.T, path, text string, fields ...string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	inside := strings.ReplaceAll(string(quoted[1:len(quoted)-1]), `\u003cnot UTF-8\u003e`, "\xff")
	fill := func(line string) string {
		var b strings.Builder
		for {
			before, behind, found := strings.Cut(line, "@")
			b.WriteString(before)
			if !found {
				return b.String()
			}
			mark, rest, _ := strings.Cut(behind, "@")
			name, usual, _ := strings.Cut(mark, "=")
			switch line = rest; {
			case name == "line":
				b.WriteString(strings.ReplaceAll(strings.ReplaceAll(text, notUTF8, "\xff"), "\n", " "))
			case slices.Contains(fields, name):
				b.WriteString(inside)
			default:
				b.WriteString(usual)
			}
		}
	}
	var all strings.Builder
	for _, l := range hostileJournal {
		if l[0] == '@' && !slices.Contains(fields, "line") {
			continue
		}
		l = strings.ReplaceAll(l, "@object2@", hostileObject)
		l = strings.ReplaceAll(l, "@object@", strings.ReplaceAll(hostileObject, "@value=is@", "@old=was@"))
		all.WriteString(fill(l) + "\n")
	}
	if err := os.WriteFile(path, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// isRaw reports whether a terminal would act on text, or show it in another order.
func isRaw(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r <= 0x9f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 ||
			r == 0x200e || r == 0x200f || r == 0x061c || r == 0x2028 || r == 0x2029
	})
}

// checkText fails where text for people has what a terminal acts on, or a line that a value has begun.
func checkText(t *testing.T, what, text string) {
	t.Helper()
	if isRaw(text) {
		t.Errorf("%s: raw: %.2000q", what, text)
	}
	if strings.HasPrefix(text, "EVIL") || strings.Contains(text, "\nEVIL") {
		t.Errorf("%s: a value begins a line: %.2000q", what, text)
	}
}

// checkNotes is checkText of stderr, whose lines are those of the program.
func checkNotes(t *testing.T, what, stderr string) {
	t.Helper()
	checkText(t, what+": stderr", stderr)
	for l := range strings.Lines(stderr) {
		if !strings.HasPrefix(l, "kubejournal: ") {
			t.Errorf("%s: a line of stderr that is none of the program: %.500q", what, l)
		}
	}
}

// values returns the JSON values of text; an error is of the first that is none.
func jsonValues(text string) (all []any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		all = append(all, v)
	}
}

// colours are those of diffs and of rows.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// hostileTexts are the questions whose answer is text. FILE is the journal.
var hostileTexts = []string{
	"history --all --journal FILE", "history --patch --journal FILE", "history deploy --journal FILE",
	"history deploy/wbe -n shpo --journal FILE", "history widgts --journal FILE", "history --field data.value --journal FILE deploy",
	"history deploy --related --journal FILE",
	"get * --at seq:6 --journal FILE", "get * --at seq:6 -o wide --journal FILE", "get * --at seq:6 -o name --journal FILE",
	"get widgets.example.com --at seq:6 --journal FILE", "get * --deleted --journal FILE", "get deploy --journal FILE",
	"get deploy/web -n shop --at 2026-11-20T14:02:50Z --journal FILE",
	"diff --since seq:1 --until seq:6 --journal FILE", "diff --since seq:1 --until seq:9 --stat --journal FILE", "diff --since seq:1 --color always --journal FILE",
	"diff --since seq:1 --until seq:6 --all --journal FILE",
	"blame deploy/web -n shop --at seq:6 --journal FILE", "blame deploy --at seq:6 --removed --journal FILE", "blame widgets --at seq:6 --journal FILE",
	"history --all --color always --journal FILE", "blame deploy/web -n shop --at seq:6 --color always --journal FILE", "tail --no-follow --color always FILE",
	"get pods,deploy --at seq:6 -o wide --journal FILE", "diff --since seq:1 --until seq:6 --all --color always --journal FILE",
	"coverage --journal FILE", "index --verify --journal FILE", "index --journal FILE",
	"tail --no-follow FILE", "tail --no-follow -o wide FILE", "tail --no-follow --since seq:1 FILE deploy", "tail --no-follow FILE deploy/wbe",
	"history --journal FILE --journal OTHER", "get * --at 2026-11-20T14:02:50Z --journal FILE --journal OTHER", "tail --no-follow --journal FILE --journal OTHER",
	"diff --since 2026-11-20T14:00:30Z --until 2026-11-20T14:02:50Z --journal FILE --journal OTHER", "coverage --journal FILE --journal OTHER",
	"history --cluster nowhere --journal FILE --journal OTHER",
	"__complete history --journal FILE ", "__complete history --journal FILE deploy/", "__complete get --journal FILE -n ",
	"__complete history --journal FILE --journal OTHER --cluster ",
}

// hostileJSON are those whose answer is JSON; each -o yaml has the same in YAML.
var hostileJSON = []string{
	"history --all -o json --journal FILE", "get * --at seq:6 -o json --journal FILE", "get * --deleted -o json --journal FILE",
	"get * --at seq:6 --clean -o json --journal FILE", "diff --since seq:1 --until seq:6 -o json --journal FILE",
	"blame deploy/web -n shop --at seq:6 -o json --journal FILE", "coverage -o json --journal FILE", "tail --no-follow -o json FILE",
	"history -o json --journal FILE --journal OTHER", "get * --at 2026-11-20T14:02:50Z -o json --journal FILE --journal OTHER",
}

var hostileAll = flag.Bool("hostile.all", false, "ask every question about every hostile field and text")

// TestHostileJournal asks every question about journals whose names and values want to be more than that.
func TestHostileJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	// asked reports whether a question is asked about a field or a text: each is about a third of them, and with the flag about all.
	asked := func(question, about int) bool { return *hostileAll || (question+about)%3 == 0 }
	clearEnv(t)
	dir := t.TempDir()
	path, other := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "other.jsonl")
	writeHostile(t, other, "other\x1b[2J", "cluster")
	ask := func(question string) (what, stdout, stderr string) {
		question = strings.NewReplacer("FILE", path, "OTHER", other).Replace(question)
		args := strings.Split(question, " ")
		_, stdout, stderr = execute(t, args...)
		return question, stdout, stderr
	}
	texts := func(t *testing.T, about int) {
		t.Helper()
		for n, question := range hostileTexts {
			if !asked(n, about) {
				continue
			}
			what, stdout, stderr := ask(question)
			if strings.Contains(question, "color always") {
				stdout = colours.ReplaceAllString(stdout, "")
			}
			if checkText(t, what, stdout); !strings.HasPrefix(what, "__complete") {
				checkNotes(t, what, stderr)
			}
		}
	}
	data := func(t *testing.T, about int) {
		t.Helper()
		for n, question := range hostileJSON {
			if !asked(n, about) {
				continue
			}
			what, stdout, stderr := ask(question)
			checkNotes(t, what, stderr)
			all, err := jsonValues(stdout)
			if err != nil {
				t.Errorf("%s: %v: %.2000q", what, err, stdout)
			}
			if !strings.HasPrefix(what, "get") {
				continue
			}
			what, stdout, stderr = ask(strings.Replace(question, "-o json", "-o yaml", 1))
			checkNotes(t, what, stderr)
			for i, document := range yamlDocuments(stdout) {
				var v any
				if err := yaml.Unmarshal([]byte(document), &v); err != nil || i >= len(all) || !reflect.DeepEqual(v, all[i]) {
					t.Errorf("%s: %.3000q: %v; in JSON %.3000v", what, document, err, all)
				}
			}
		}
	}
	for n, field := range hostileFields() {
		t.Run(field, func(t *testing.T) {
			writeHostile(t, path, hostile["everything"], field)
			texts(t, n)
			data(t, n)
		})
	}
	for n, kind := range slices.Sorted(maps.Keys(hostile)) {
		text := hostile[kind]
		t.Run(kind, func(t *testing.T) {
			writeHostile(t, path, text, "namespace", "name", "manager", "old", "value", "label", "annotation", "key", "element", "size", "eventMessage")
			data(t, n)
			if kind == "long" {
				texts(t, n)
			}
		})
	}
}

// yamlDocuments splits what get -o yaml prints.
func yamlDocuments(text string) (all []string) {
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		if strings.TrimSpace(document) != "" {
			all = append(all, document)
		}
	}
	return all
}

// TestHostileCoverage has a stream's name and reasons of a coverage file that somebody sent.
func TestHostileCoverage(t *testing.T) {
	clearEnv(t)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	j.Cluster = hostile["clear"]
	s := j.Stream("pods?namespace=a\x1b[2J\nEVIL\u202e", "Pod\x1b[2J")
	s.Snapshot()
	s.Put("", `{"metadata":{"namespace":"a","name":"web","uid":"a1"}}`)
	s.Synced()
	s.HeldBack("a\x1b[2J\nEVIL")
	j.Now = j.Now.Add(time.Minute)
	s.Gap(line.Reason("a\x1b[2J\nEVIL"), j.Now)
	s.Synced()
	j.Kill()
	for _, question := range hostileTexts {
		args := strings.Split(strings.NewReplacer("FILE", path, "OTHER", path).Replace(question), " ")
		_, stdout, stderr := execute(t, args...)
		stdout = colours.ReplaceAllString(stdout, "")
		checkText(t, question, stdout)
		if !strings.HasPrefix(question, "__complete") {
			checkNotes(t, question, stderr)
		}
	}
}

// TestHostileFileNames has names of files and arguments with control characters in errors and answers.
func TestHostileFileNames(t *testing.T) {
	clearEnv(t)
	dir := filepath.Join(t.TempDir(), "a\x1b[2J\nEVIL\u202e")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal\x1b[2J.jsonl")
	writeHostile(t, path, "")
	config := filepath.Join(dir, "kubejournal\x1b[2J.yaml")
	if err := os.WriteFile(config, []byte("output:\n  path: \"a\\e[2J\"\nnope\x7f: \"\\e\"\nresources: [\"\\e[2Jpods\", \"po\\nEVIL\", {\"\\e\": x}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"history", "--journal", path, "deploy/we\x1b"}, {"history", "--journal", path + "x"}, {"history", "--journal", path, "--journal", path},
		{"tail", "--no-follow", path + "x"}, {"tail", "--no-follow", path, "deploy/\x1b[2J"}, {"index", "--journal", path, "--verify"}, {"index", "--journal", dir},
		{"history", "--journal", path, "--since", "\x1b[2J"}, {"get", "\x1b[2J", "--journal", path}, {"get", "deploy", "-l", "\x1b[2J==\n", "--journal", path},
		{"get", "deploy", "-o", "\x1b[2J", "--journal", path}, {"\x1b[2J\nEVIL"}, {"history", "--\x1b[2J"}, {"history", "-\x1b"},
		{"validate", "--config", config}, {"validate", "--config", config + "x"}, {"run", "--config", config}, {"rbac", "--config", config, "--offline"},
		{"checkpoint", "show", "--checkpoint", path}, {"checkpoint", "show", "--checkpoint", path + "x"}, {"checkpoint", "reset", "\x1b[2J", "--checkpoint", path},
		{"status", "--address", "\x1b[2J:1"}, {"status", "--config", config}, {"rbac", "--config", config, "--name", "\x1b[2J"},
		{"resources", "--kubeconfig", path, "--context", "\x1b[2J"}, {"resources", "--kubeconfig", path + "x"}, {"run", "pods", "--kubeconfig", path + "x"},
		{"run", "pods", "--format", "text", "-O", path}, {"run", "pods", "--format", "text", "--output", path},
	} {
		_, stdout, stderr := execute(t, args...)
		checkText(t, fmt.Sprintf("%q", args), stdout)
		checkText(t, fmt.Sprintf("%q: stderr", args), stderr)
	}
}
