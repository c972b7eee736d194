package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
)

const deploymentLine = `{"seq":7,"time":"2026-11-20T15:10:22.123456789Z","type":"MODIFIED","origin":"watch","id":"u-1/12/MODIFIED","stream":"deployments.apps","cluster":"prod-eu1","group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u-1","resourceVersion":"12","generation":3,"manager":"kubectl","subresource":"scale","object":{"apiVersion":"apps/v1","metadata":{"name":"web"}}}`

func parse(t testing.TB, raw string) *line.Fields {
	t.Helper()
	l := &line.Fields{}
	if err := l.Parse([]byte(raw)); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return l
}

func TestParse(t *testing.T) {
	l := parse(t, deploymentLine)
	if l.Seq != 7 || !l.Time.Equal(time.Date(2026, 11, 20, 15, 10, 22, 123456789, time.UTC)) {
		t.Errorf("seq %d, time %s", l.Seq, l.Time)
	}
	got := fmt.Sprintf("%s %s %s %s %s %s %s %s %s %s %s %s %s", l.Text(line.FieldType), l.Text(line.FieldOrigin), l.Text(line.FieldStream), l.Text(line.FieldGroup), l.Text(line.FieldVersion), l.Text(line.FieldResource), l.Text(line.FieldKind),
		l.Text(line.FieldNamespace), l.Text(line.FieldName), l.Text(line.FieldResourceVersion), l.Value(line.FieldGeneration), l.Text(line.FieldManager), l.Text(line.FieldSubresource))
	if want := "MODIFIED watch deployments.apps apps v1 deployments Deployment shop web 12 3 kubectl scale"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, raw := range map[string]string{
		"another order":        `{"object":{"a":[{"}":"]"}]},"type":"ADDED","stream":"pods","seq":1,"name":"a","time":"2026-11-20T15:10:22Z"}`,
		"white space":          "  {\t\"seq\" : 1 , \"type\":\"ADDED\",\n\"stream\":\"pods\", \"name\": \"a\", \"time\":\"2026-11-20T15:10:22+01:00\" }\r\n",
		"members behind":       `{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods","object":{"x":"\\"},"name":"a","more":-1.5e3}`,
		"escaped quotes":       `{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"po\"ds\\","name":"a"}`,
		"object that is empty": `{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods","name":"a","object":{}}`,
		"other kinds":          `{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods","name":"a","namespace":5,"manager":null,"event":[]}`,
	} {
		if l := parse(t, raw); l.Seq != 1 || string(l.Text(line.FieldName)) != "a" || string(l.Text(line.FieldType)) != "ADDED" || len(l.Text(line.FieldNamespace))+len(l.Text(line.FieldManager)) > 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestParseFaults(t *testing.T) {
	var l line.Fields
	for _, raw := range []string{
		``, `{`, `}`, `{}`, `[]`, `null`, `"x"`, `seq 7`, "\x00\x00\x00",
		`{"level":"info","time":"2026-11-20T15:10:22Z","msg":"running"}`,
		`{"seq":0,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods"}`,
		`{"seq":-1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods"}`,
		`{"seq":1,"time":"yesterday","type":"ADDED","stream":"pods"}`,
		`{"seq":1,"time":5,"type":"ADDED","stream":"pods"}`,
		`{"seq":1,"time":"2026-11-20T15:10:22Z","type":"","stream":"pods"}`,
		`{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods"}}`,
		`{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED" "stream":"pods"}`,
		`{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream"}`,
	} {
		if err := l.Parse([]byte(raw)); err == nil {
			t.Errorf("accepted %q", raw)
		}
	}
	// A torn line is never one, wherever it is torn in front of the object.
	for i := range strings.Index(deploymentLine, `,"object"`) {
		if err := l.Parse([]byte(deploymentLine[:i])); err == nil {
			t.Errorf("accepted %q", deploymentLine[:i])
		}
	}
}
