package report

import (
	"cmp"
	"slices"
	"strings"

	"kubejournal/internal/format/rawjson"
)

const (
	before      = 10 * 60 * 1000 // milliseconds
	maxSymptoms = 50
	maxRanked   = 8
	unranked    = "efgw" // kinds of changes that are no causes: Events, found, gaps, Warnings
)

// Rule is how the changes before a symptom are ranked, in a sentence.
const Rule = "The changes of the 10 minutes before it (no Events, no noise, no symptoms) are ranked by the sum of how close " +
	"the object is (3: the same, one that owns it or that it owns, or one that its spec names; 2: of its namespace, or that; " +
	"1: in no namespace; 0: elsewhere), what changed (2: spec, data or a deletion; 1: that it was made, or metadata; 0: status) " +
	"and who wrote it (2: a person or a program; 1: not known; 0: a part of Kubernetes); of the same sum the later one is first. " +
	"One that was received after the symptom counts too, if the server wrote it before."

// symptom is a version that says that something went wrong, and the changes before it.
type symptom struct {
	Version int      `json:"v"`
	Ranked  []ranked `json:"r"`
}

// ranked is a change, and the three parts of its rank.
type ranked struct {
	Version int    `json:"v"`
	Points  [3]int `json:"p"`
}

func (r *ranked) sum() int { return r.Points[0] + r.Points[1] + r.Points[2] }

// rank finds the first symptom of each lane, and ranks what came before each.
func (g *gatherer) rank() {
	seen := map[int]bool{}
	for n := range g.Versions {
		v := &g.Versions[n]
		lane := g.laneOf(v)
		if v.Symptom == "" || seen[lane] || len(g.Symptoms) == maxSymptoms {
			continue
		}
		seen[lane] = true
		s := symptom{Version: n, Ranked: []ranked{}}
		related, named := g.related(lane), g.named[lane]
		for m := range slices.Backward(g.Versions) {
			c := &g.Versions[m]
			if m == n || !c.precedes(v, m < n) || v.At-c.At > before || c.Object < 0 || c.Noise || c.Symptom != "" ||
				strings.Contains(unranked, c.Kind) {
				continue
			}
			s.Ranked = append(s.Ranked, ranked{m, [3]int{
				g.closeness(c.Object, lane, related, named), weight(c), writer(c),
			}})
		}
		slices.SortStableFunc(s.Ranked, func(a, b ranked) int { // they are the latest first
			return cmp.Compare(b.sum(), a.sum())
		})
		s.Ranked = s.Ranked[:min(len(s.Ranked), maxRanked)]
		g.Symptoms = append(g.Symptoms, s)
	}
}

// precedes reports whether a change was made before another version. Streams are read beside each other, most of all
// where they catch up: what caused a version may be received after it. The server numbers its writes.
func (v *version) precedes(other *version, received bool) bool {
	if received {
		return v.At <= other.At
	}
	return v.written > 0 && v.written <= other.At && 0 < v.server && v.server < other.server
}

// related returns the lanes that own a lane, and those that it owns.
func (g *gatherer) related(lane int) map[int]bool {
	all := map[int]bool{lane: true}
	for o := g.Objects[lane].Owner; o >= 0 && !all[o]; o = g.Objects[o].Owner {
		all[o] = true
	}
	for o := range g.Objects {
		for up, n := g.Objects[o].Owner, 0; up >= 0 && n < 8; up, n = g.Objects[up].Owner, n+1 {
			if up == lane {
				all[o] = true
			}
		}
	}
	return all
}

func (g *gatherer) closeness(object, lane int, related map[int]bool, named map[string]bool) int {
	o, of := &g.Objects[object], &g.Objects[lane]
	switch {
	case related[object], named[o.Name] && (o.Namespace == of.Namespace || o.Namespace == ""):
		return 3
	case o.Namespace == of.Namespace && o.Namespace != "",
		o.Kind == "Namespace" && o.Name == of.Namespace:
		return 2
	case o.Namespace == "":
		return 1
	}
	return 0
}

func weight(v *version) int {
	switch v.Kind {
	case "s", "d", "t":
		return 2
	case "a", "m":
		return 1
	}
	return 0
}

func writer(v *version) int {
	own := strings.HasPrefix(v.Manager, "kube-") || v.Manager == "kubelet" || v.Manager == "node-controller"
	switch {
	case v.Person != "" && !strings.HasPrefix(v.Person, "system:"), v.Manager != "" && !own:
		return 2
	case v.Manager == "" && v.Person == "":
		return 1
	}
	return 0
}

// names adds the texts in a value: a spec has the names of what it depends on among them.
func names(all map[string]bool, value []byte, depth int) {
	const deepest = 12
	if len(value) == 0 || depth > deepest {
		return
	}
	switch value[0] {
	case '"':
		all[string(rawjson.Unquote(nil, rawjson.Inside(value)))] = true
	case '{':
		for _, member := range rawjson.Members(value) {
			names(all, member, depth+1)
		}
	case '[':
		for element := range rawjson.Elements(value) {
			names(all, element, depth+1)
		}
	}
}
