package workload

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
	"kubejournal/test/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// author writes to a server of its own. change may change what its requests go through.
func author(t *testing.T, entries []Entry, change func(*rest.Config)) Author {
	t.Helper()
	server := fake.New(fake.Options{BookmarkInterval: time.Hour})
	t.Cleanup(server.Close)
	config := server.Config()
	config.QPS = -1
	if change != nil {
		change(config)
	}
	client, transport, err := Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return Author{Client: client, Ledger: &Ledger{Sources: Sources(entries)}}
}

var (
	someEntries = []Entry{{Kind: ConfigMaps, Selector: "app=web"}, {Kind: Secrets, Namespaces: []string{"a"}}}
	someChurn   = Churn{Kinds: []Kind{ConfigMaps, Secrets}, Namespaces: []string{"a", "b"}, Name: "o", Rate: 5000, Seed: 7}
)

// run has writers at work until so many writes were acknowledged.
func run(t *testing.T, a Author, c Churn, n int) {
	t.Helper()
	w := a.Churn(t.Context(), c)
	defer w.Stop()
	err := program.Eventually(t.Context(), time.Minute, "writes", func() error {
		if is, _ := a.Ledger.Counts(); is < n {
			return fmt.Errorf("%d", is)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the ledger holds leads to what the server has.
func TestChurn(t *testing.T) {
	for _, clear := range []bool{false, true} {
		a, c := author(t, someEntries, nil), someChurn
		c.Clear = clear
		run(t, a, c, 600)
		if _, unknown := a.Ledger.Counts(); unknown > 0 {
			t.Errorf("%d writes without an answer", unknown)
		}
		type seen struct{ stream, uid string }
		there, types := make(map[seen]bool), make(map[string]int)
		for _, w := range a.Ledger.Writes() {
			k := seen{w.Stream, w.UID}
			if there[k] == (w.Type == invariant.Added) {
				t.Errorf("%s: %s while there is one: %t", w.What, w.Type, there[k])
			}
			if w.ResourceVersion == "" && w.Type != invariant.Deleted {
				t.Errorf("%s: %s without a version", w.What, w.Type)
			}
			there[k] = w.Type != invariant.Deleted
			types[w.Type]++
		}
		if min(types[invariant.Added], types[invariant.Modified], types[invariant.Deleted]) < 20 {
			t.Errorf("writes are %v", types)
		}
		for _, s := range a.Ledger.Sources {
			live, err := Live(t.Context(), a.Client, []Source{s})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for k, is := range there {
				if is && k.stream == s.Stream() {
					n++
				}
			}
			if n != len(live) {
				t.Errorf("%s: the ledger leads to %d objects, the server has %d", s.Stream(), n, len(live))
			}
		}
	}
}

// The same seed leads each writer to the same writes.
func TestSeed(t *testing.T) {
	writes := func() map[string][]string {
		a := author(t, []Entry{{Kind: ConfigMaps}, {Kind: Secrets}}, nil)
		run(t, a, someChurn, 300)
		all := make(map[string][]string)
		for _, w := range a.Ledger.Writes() {
			_, name, _ := strings.Cut(w.What, "/")
			writer := name[:strings.LastIndexByte(name, '-')]
			all[writer] = append(all[writer], w.Type+" "+w.What)
		}
		return all
	}
	first, second := writes(), writes()
	if len(first) != writers {
		t.Fatalf("%d writers, want %d", len(first), writers)
	}
	for name, one := range first {
		other := second[name]
		n := min(len(one), len(other))
		if n < 10 || !reflect.DeepEqual(one[:n], other[:n]) {
			t.Errorf("writer %s: %q and %q", name, one, other)
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Of writes without an answer some are made, which is found out; those that were refused are not.
func TestFates(t *testing.T) {
	var fault atomic.Pointer[error]
	a := author(t, someEntries, func(c *rest.Config) {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				err := fault.Load()
				if err != nil && errors.Is(*err, syscall.ECONNREFUSED) {
					return nil, *err
				}
				response, nextErr := next.RoundTrip(r)
				if err == nil || nextErr != nil {
					return response, nextErr
				}
				response.Body.Close()
				return nil, *err
			})
		})
	})
	fail := func(err error) { fault.Store(&err) }
	o := Object{Kind: ConfigMaps, Namespace: "a", Name: "o", App: "web"}
	fail(syscall.ECONNREFUSED)
	if err := a.Create(t.Context(), &o, 1); !errors.Is(err, errNotMade) {
		t.Errorf("a refused connection: %v", err)
	}
	fail(errors.New("cut"))
	if err := a.Create(t.Context(), &o, 1); err == nil || errors.Is(err, errNotMade) {
		t.Errorf("a lost answer: %v", err)
	}
	if err := a.Settle(t.Context()); err == nil {
		t.Error("settled without an answer")
	}
	if acknowledged, unknown := a.Ledger.Counts(); acknowledged != 0 || unknown != 1 || len(a.Ledger.Writes()) != 0 {
		t.Errorf("%d acknowledged and %d unknown", acknowledged, unknown)
	}
	live := func() int {
		t.Helper()
		state, err := Live(t.Context(), a.Client, a.Ledger.Sources)
		if err != nil {
			t.Fatal(err)
		}
		return len(state)
	}
	fault.Store(nil)
	if n := live(); n != 1 {
		t.Errorf("%d objects, want the one whose answer was lost", n)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	if n := live(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	if w := a.Ledger.Writes(); len(w) != 1 || w[0].Type != invariant.Deleted || w[0].UID == "" {
		t.Errorf("writes are %+v", w)
	}
}

// An object comes to a stream and leaves it by its label.
func TestLedger(t *testing.T) {
	a := author(t, someEntries, nil)
	o := Object{Kind: ConfigMaps, Namespace: "a", Name: "o", App: "db"}
	steps := []error{a.Create(t.Context(), &o, 1), a.Update(t.Context(), &o, "web", 2), a.Update(t.Context(), &o, "web", 3)}
	a.Ledger.Restored()
	steps = append(steps, a.Update(t.Context(), &o, "db", 4), a.Delete(t.Context(), o))
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range a.Ledger.Writes() {
		got = append(got, fmt.Sprint(w.Type, w.Epoch, w.ResourceVersion != ""))
		if w.What != "configmaps?labelSelector=app%3Dweb a/o" {
			t.Errorf("a write is called %s", w.What)
		}
	}
	if want := "[ADDED0 true MODIFIED0 true DELETED1 true]"; fmt.Sprint(got) != want {
		t.Errorf("writes are %v, want %s", got, want)
	}
	if acknowledged, _ := a.Ledger.Counts(); acknowledged != 5 {
		t.Errorf("%d acknowledged, want 5", acknowledged)
	}
	a.Ledger.Reset()
	if acknowledged, _ := a.Ledger.Counts(); acknowledged != 0 || len(a.Ledger.Writes()) != 0 {
		t.Error("it remembers what it was to forget")
	}
}

func TestSources(t *testing.T) {
	var got []string
	for _, s := range Sources([]Entry{
		{Kind: Deployments}, {Kind: ConfigMaps, Namespaces: []string{"a", "b"}}, {Kind: Widgets, Namespaces: []string{"a"}, Selector: "app=web"},
	}) {
		got = append(got, s.Stream())
	}
	want := "deployments.apps configmaps?namespace=a configmaps?namespace=b widgets." + Group + "?namespace=a&labelSelector=app%3Dweb"
	if strings.Join(got, " ") != want {
		t.Errorf("streams are %s, want %s", got, want)
	}
	configs := Configs([]Entry{{Kind: Deployments}, {Kind: ConfigMaps, Version: "v1", Namespaces: []string{"a"}, Selector: "app=db", Changes: true}})
	if want := "[map[group:apps resource:deployments] map[changes:true group: labelSelector:app=db namespaces:[a] resource:configmaps version:v1]]"; fmt.Sprint(configs) != want {
		t.Errorf("configs are %v, want %s", configs, want)
	}
	if got := Defined(Definition("gears", "Gear", "v1beta1", "v1")).String(); got != Group+"/v1beta1, Resource=gears" {
		t.Errorf("a definition makes %s", got)
	}
}

func TestLeak(t *testing.T) {
	for text, want := range map[string]bool{
		"nothing":                          false,
		"x" + SecretValue + "7":            true,
		"dGhpcy1tdXN0LW5vdC1nZXQtb3V0LTc=": true, // its base64
	} {
		if err := Leak("/x/journal", []byte(text)); (err != nil) != want || want && !strings.HasPrefix(err.Error(), "journal: holds") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
