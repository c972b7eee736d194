package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/sharding"
)

// half is one of two shards of all objects, as the parameter shardSelector (KEP-5866) names it.
type half struct{ start, end string }

var halves = [2]half{{"0x0000000000000000", "0x8000000000000000"}, {"0x8000000000000000", "0x10000000000000000"}}

func (h half) selector() string {
	return fmt.Sprintf("shardRange(object.metadata.uid, '%s', '%s')", h.start, h.end)
}

// query begins a query with the selector.
func (h half) query() string { return "?" + url.Values{"shardSelector": {h.selector()}}.Encode() }

// has goes by the uid's hash.
func (h half) has(object map[string]any) bool {
	hash := "0x" + sharding.HashField(str(object, "metadata", "uid"))
	return !sharding.HexLess(hash, h.start) && sharding.HexLess(hash, h.end)
}

// shardsSince is the release that has the feature, off as it comes.
const shardsSince = 36

var shardTests = []test{
	{"ignored where the feature is off", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		made := s.createMany(6)
		for _, query := range []string{halves[0].query(), halves[1].query(), "?shardSelector=nonsense"} {
			list := c.get(t, s.path("configmaps")+query).want(t, http.StatusOK).object(t)
			if got := names(list); !slices.Equal(got, slices.Sorted(maps.Keys(made))) ||
				at(list, "metadata", "shardInfo") != nil {
				t.Errorf("%s: %v, %v", query, got, list["metadata"])
			}
			w := c.watch(t, fmt.Sprintf("%s%s&watch=true&resourceVersion=%d", s.path("configmaps"), query, from))
			for _, name := range slices.Sorted(maps.Keys(made)) {
				w.want("ADDED", name)
			}
		}
	}},
	{"selected where the feature is on", func(t *testing.T, c *client, target Target) {
		if c.minor < shardsSince {
			return // that it does not have the feature is what the test before this one says
		}
		if err := target.SetShards(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := target.SetShards(t.Context(), false); err != nil {
				t.Error(err)
			}
		}()
		for _, test := range selectedTests {
			t.Run(test.name, func(t *testing.T) { test.run(t, c, target) })
		}
	}},
}

// createMany makes config maps, of which both halves have some, and returns them by name.
func (s space) createMany(least int) map[string]map[string]any {
	s.t.Helper()
	made := make(map[string]map[string]any)
	for n := 0; n < least || !some(made, halves[0]) || !some(made, halves[1]); n++ {
		o := s.create(configMap(fmt.Sprintf("a-%02d", n), "1"))
		made[str(o, "metadata", "name")] = o
	}
	return made
}

func some(objects map[string]map[string]any, h half) bool { return len(in(objects, h)) > 0 }

// in returns the names of the objects in a shard, in order.
func in(objects map[string]map[string]any, h half) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if h.has(objects[name]) {
			names = append(names, name)
		}
	}
	return names
}

// selectedTests are of a server with the feature.
var selectedTests = []test{
	{"list", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		made := s.createMany(8)
		for _, h := range halves {
			list := c.get(t, s.path("configmaps")+h.query()).want(t, http.StatusOK).object(t)
			if got, want := names(list), in(made, h); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if got := at(list, "metadata", "shardInfo", "selector"); got != h.selector() {
				t.Errorf("metadata is %v", list["metadata"])
			}
		}
		list := c.get(t, s.path("configmaps")+"?shardSelector=").want(t, http.StatusOK).object(t)
		if got := names(list); len(got) != len(made) || at(list, "metadata", "shardInfo") != nil {
			t.Errorf("with an empty selector: %v, %v", got, list["metadata"])
		}
	}},
	{"pages", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		made := s.createMany(12)
		for _, h := range halves {
			var got []string
			first := uint64(0)
			for token, more := "", true; more; more = token != "" {
				page := c.get(t, s.path("configmaps")+h.query()+"&limit=2&continue="+token).want(t,
					http.StatusOK).object(t)
				token = str(page, "metadata", "continue")
				got = append(got, names(page)...)
				// A page is full, however many objects of others are between its own. What is said to remain has some
				// of those in it, and is no use.
				if n := len(names(page)); n != 2 && token != "" || n > 2 ||
					(at(page, "metadata", "remainingItemCount") == nil) != (token == "") {
					t.Errorf("a page of %d with %v", n, page["metadata"])
				}
				if at(page, "metadata", "shardInfo", "selector") != h.selector() {
					t.Errorf("metadata is %v", page["metadata"])
				}
				if first == 0 {
					first = version(page)
				} else if version(page) != first {
					t.Errorf("a page of %d behind one of %d", version(page), first)
				}
			}
			if want := in(made, h); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}},
	{"with other selectors", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		made := s.createMany(8)
		name := in(made, halves[0])[0]
		s.update(configMap(name, "2", "app", "x"))
		for i, want := range [][]string{{name}, {}} {
			if got := names(c.get(t, s.path("configmaps")+halves[i].query()+"&labelSelector=app").want(t,
				http.StatusOK).object(t)); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}},
	{"metadata only", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		made := s.createMany(4)
		list := c.get(t, s.path("configmaps")+halves[0].query(), "Accept",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").want(t, http.StatusOK).object(t)
		if got, want := names(list), in(made, halves[0]); !slices.Equal(got, want) ||
			at(list, "metadata", "shardInfo") != nil {
			t.Errorf("got %v with %v, want %v", got, list["metadata"], want)
		}
	}},
	{"watch", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		var watches [2]*stream
		for i, h := range halves {
			watches[i] = c.watch(t,
				fmt.Sprintf("%s%s&watch=true&resourceVersion=%d", s.path("configmaps"), h.query(), from))
		}
		type told struct{ kind, name string }
		var want [2][]told
		tell := func(kind string, o map[string]any) {
			for i, h := range halves {
				if h.has(o) {
					want[i] = append(want[i], told{kind, str(o, "metadata", "name")})
				}
			}
		}
		made := s.createMany(6)
		for _, name := range slices.Sorted(maps.Keys(made)) {
			tell("ADDED", made[name])
		}
		for name, o := range made {
			tell("MODIFIED", s.update(configMap(name, "2")))
			// One that takes the name of another has a uid, and so a shard, of its own.
			s.remove(name)
			tell("DELETED", o)
			tell("ADDED", s.create(configMap(name, "3")))
		}
		for i, w := range watches {
			for _, e := range want[i] {
				w.want(e.kind, e.name)
			}
		}
	}},
	{"bookmarks pass objects of other shards", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		made := s.createMany(4)
		w := c.watch(t, fmt.Sprintf("%s%s&watch=true&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion=%d",
			s.path("configmaps"), halves[0].query(), s.now()))
		last := s.update(configMap(in(made, halves[1])[0], "2"))
		all := w.rest()
		if len(all) == 0 {
			t.Error("nothing was sent")
		}
		for _, e := range all {
			if e.Type != "BOOKMARK" || e.version() < version(last) || at(e.Object, "metadata", "shardInfo") != nil {
				t.Errorf("got %s, want a bookmark of %d or later", e.raw, version(last))
			}
		}
	}},
	{"streamed list", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		made := s.createMany(8)
		for _, h := range halves {
			path := s.path("configmaps") + h.query() + "&" + initialEvents
			if target.NoWatchList {
				refusesInitialEvents(t, c, path)
				continue
			}
			w := c.watch(t, path)
			for _, name := range in(made, h) {
				w.want("ADDED", name)
			}
			if e := w.next(); e.Type != "BOOKMARK" ||
				str(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
				t.Errorf("got %s", e.raw)
			}
		}
	}},
	{"of events", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		from := s.now()
		made := make(map[string]map[string]any)
		for n := 0; n < 6 || !some(made, halves[0]) || !some(made, halves[1]); n++ {
			o := c.do(t, http.MethodPost, s.path("events"), coreEvent(s, fmt.Sprintf("e-%02d", n))).want(t,
				http.StatusCreated).object(t)
			made[str(o, "metadata", "name")] = o
		}
		for _, h := range halves {
			list := c.get(t, s.path("events")+h.query()).want(t, http.StatusOK).object(t)
			if got, want := names(list), in(made, h); !slices.Equal(got, want) ||
				at(list, "metadata", "shardInfo", "selector") != h.selector() {
				t.Errorf("got %v, want %v, %v", got, want, list["metadata"])
			}
			// They are in no watch cache, and what comes straight from etcd is not selected.
			watches := []*stream{c.watch(t,
				fmt.Sprintf("%s%s&watch=true&resourceVersion=%d", s.path("events"), h.query(), from))}
			if !target.NoWatchList {
				watches = append(watches, c.watch(t, s.path("events")+h.query()+"&"+initialEvents))
			}
			for _, w := range watches {
				for _, name := range slices.Sorted(maps.Keys(made)) {
					w.want("ADDED", name)
				}
			}
		}
	}},
	{"malformed selector", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, selector := range []string{
			"nonsense", "shardRange(object.metadata.uid, '0x0', '0x8')",
			"shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')",
		} {
			for _, watch := range []string{"", "&watch=true"} {
				st := c.get(t, s.path("configmaps")+"?shardSelector="+url.QueryEscape(selector)+watch).wantStatus(t,
					http.StatusInternalServerError, "")
				if !strings.HasPrefix(str(st, "message"), "invalid shard selector: ") {
					t.Errorf("got %v", st["message"])
				}
			}
		}
	}},
}
