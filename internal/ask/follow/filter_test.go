package follow

import (
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/line"
)

const (
	deploymentLine = `{"seq":7,"time":"2026-11-20T15:10:22.123456789Z","type":"MODIFIED","origin":"watch","id":"u-1/12/MODIFIED","stream":"deployments.apps","cluster":"prod-eu1","group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u-1","resourceVersion":"12","generation":3,"manager":"kubectl","subresource":"scale","object":{"apiVersion":"apps/v1","metadata":{"name":"web"}}}`
	gapLine        = `{"seq":9,"time":"2026-11-20T15:10:23.000000000Z","type":"GAP","id":"pods?namespace=web/40/GAP","stream":"pods?namespace=web&labelSelector=app%3Dweb","version":"v1","resource":"pods","kind":"Pod","reason":"Expired","fromResourceVersion":"12","resourceVersion":"40"}`
	syncedLine     = `{"seq":10,"time":"2026-11-20T15:10:24.000000000Z","type":"SYNCED","id":"pods/40/SYNCED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","resourceVersion":"40","count":{"added":1,"modified":2,"deleted":0,"unchanged":40}}`
)

func parse(t testing.TB, raw string) *line.Fields {
	t.Helper()
	l := &line.Fields{}
	if err := l.Parse([]byte(raw)); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return l
}

func TestFilter(t *testing.T) {
	event := `{"seq":8,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"events","version":"v1","resource":"events","kind":"Event","namespace":"shop"}`
	node := `{"seq":8,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"nodes","version":"v1","resource":"nodes","kind":"Node","name":"shop"}`
	namespace := strings.NewReplacer("nodes", "namespaces", "Node", "Namespace").Replace(node)
	resources := func(names ...string) argument.Filter {
		return argument.Filter{Selection: argument.Selection{Objects: objects(t, names...)}}
	}
	at := time.Date(2026, 11, 20, 15, 10, 23, 0, time.UTC)
	for _, c := range []struct {
		f    argument.Filter
		line string
		want bool
	}{
		{argument.Filter{}, deploymentLine, true},
		{resources("deployments"), deploymentLine, true},
		{resources("Deployment"), deploymentLine, true},
		{resources("deploy"), deploymentLine, true},
		{resources("deployments.apps"), deploymentLine, true},
		{resources("deploy.apps"), deploymentLine, true},
		{resources("deployments.v1.apps"), deploymentLine, true},
		{resources("pods", "deploy"), deploymentLine, true},
		{resources("deployments.extensions"), deploymentLine, false},
		{resources("deployments.v1beta1.apps"), deploymentLine, false},
		{resources("deployments."), deploymentLine, false},
		{resources("pods"), deploymentLine, false},
		{resources("po"), gapLine, true},
		{resources("pods."), gapLine, true},
		{resources("pods.v1."), gapLine, true},
		{argument.Filter{Types: []string{"GAP", "SYNCED"}}, gapLine, true},
		{argument.Filter{Types: []string{"DELETED"}}, gapLine, false},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, deploymentLine, true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"sho", "shops"}}}, deploymentLine, false},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, event, true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, node, false},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"web"}}}, gapLine, true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, gapLine, false},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, syncedLine, true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, strings.Replace(node, "ADDED", "SYNCED", 1), false},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, strings.NewReplacer("ADDED", "SYNCED", `"nodes","version"`, `"nodes.example.com","group":"example.com","version"`).Replace(node), true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"x"}, Objects: objects(t, "no/shop")}}, node, true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"x"}, Objects: objects(t, "*/shop")}}, node, false},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}}}, namespace, true},
		{argument.Filter{Selection: argument.Selection{Namespaces: []string{"x"}}}, namespace, false},
		{resources("deploy/web"), deploymentLine, true},
		{resources("*/web"), deploymentLine, true},
		{resources("*.apps"), deploymentLine, true},
		{resources("deploy/we"), deploymentLine, false},
		{resources("pods/web"), deploymentLine, false},
		{resources("pods/web"), gapLine, true},
		{argument.Filter{Since: argument.Moment{Time: at}}, gapLine, true},
		{argument.Filter{Since: argument.Moment{Time: at.Add(1)}}, gapLine, false},
		{argument.Filter{Until: argument.Moment{Time: at}}, gapLine, true},
		{argument.Filter{Until: argument.Moment{Time: at.Add(-1)}}, gapLine, false},
		{argument.Filter{Since: argument.Moment{Seq: 9}, Until: argument.Moment{Seq: 9}}, gapLine, true},
		{argument.Filter{Since: argument.Moment{Seq: 10}}, gapLine, false},
		{argument.Filter{Until: argument.Moment{Seq: 8}}, gapLine, false},
	} {
		if got := (&argument.Matcher{Filter: &c.f}).Match(parse(t, c.line)); got != c.want {
			t.Errorf("%+v: %t on %s", c.f, got, c.line)
		}
	}
}

func TestParseType(t *testing.T) {
	if got, err := ParseType("deleted"); err != nil || got != "DELETED" {
		t.Errorf("deleted: %q, %v", got, err)
	}
	if _, err := ParseType("BOOKMARK"); err == nil || err.Error() != `"BOOKMARK" is not known; write ADDED, MODIFIED, DELETED, GAP, SYNCED, REMOVED or SEALED` {
		t.Errorf("BOOKMARK: %v", err)
	}
}

// objects are what a filter has of arguments.
func objects(t testing.TB, names ...string) []argument.Object {
	t.Helper()
	var all []argument.Object
	for _, name := range names {
		o, err := argument.ParseObject(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// Nobody is named as the one who deleted.
func TestWho(t *testing.T) {
	for typ, want := range map[string][2]string{"MODIFIED": {"kubectl/scale", "kubectl scale"}, "DELETED": {}} {
		l := parse(t, objectLine(typ, `,"manager":"kubectl","subresource":"scale"`))
		if got := [2]string{string(appendFullWho(nil, l, nil)), string(appendWho(nil, l, nil))}; got != want {
			t.Errorf("%s: %s", typ, got)
		}
	}
}
