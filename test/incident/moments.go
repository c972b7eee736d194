package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/client-go/rest"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/serve"
	"kubejournal/test/invariant"
	"kubejournal/test/past"
	"kubejournal/test/program"
)

const (
	momentsFile = "moments.json.gz"

	// quiet is how long the server has not changed before a moment: a line may come so much later than its change, and
	// is in time for kubejournal.
	quiet = 4 * time.Second
	// unconfirmed is how long before an outage the last pulse may be.
	unconfirmed = 10 * time.Second
	// askers is how many ask at once: something changes the server every few seconds.
	askers = 4
	// examples is how many objects of a resource are asked for one by one, and how many differences are shown of each
	// moment.
	examples = 5
)

// errChanged says that what was asked is of no single moment.
var errChanged = errors.New("the server has changed")

// snapshot is what the API server answered at a time, but for what the config drops and redacts.
type snapshot struct {
	At      time.Time
	After   string // the step
	Watched bool   // all of it, by kubejournal
	Lost    bool   // that it was: a later GAP has the time before it, up to a bookmark, believed no more
	Asked   []*asked
}

// asked is a request and its answer.
type asked struct {
	past.Request
	past.Answer
	Sent time.Time
	Walk bool // page by page; the answer is all of them
}

// resourceOf is a resource, as discovery names it.
type resourceOf struct {
	path       string // of its group and version
	name       string
	group      string
	namespaced bool
}

// api asks the API server.
type api struct {
	host   string
	client *http.Client
}

// chosen reports whether there is a moment after step i of n.
func (x *incident) chosen(i, n int) bool {
	for k := range x.moments {
		if (2*k+1)*n/(2*x.moments) == i {
			return true
		}
	}
	return false
}

// record records a moment after a step. What else changes the server, such as the renewal of a lease every 10 s, has it
// asked again.
func (x *incident) record(ctx context.Context, after string) error {
	client, err := rest.HTTPClientFor(x.cluster.RESTConfig())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := &api{x.cluster.RESTConfig().Host, client}
	for {
		m := &snapshot{After: after}
		if err = x.recordOnce(ctx, a, m); err == nil {
			x.recorded = append(x.recorded, m)
			return nil
		}
		if !errors.Is(err, errChanged) {
			return fmt.Errorf("record a moment: %w", err)
		}
	}
}

// recordOnce asks for all that is compared, while the server stays as it is.
func (x *incident) recordOnce(ctx context.Context, a *api, m *snapshot) error {
	version, since, err := a.still(ctx)
	if err != nil {
		return err
	}
	documents, err := a.documents(ctx)
	if err != nil {
		return err
	}
	resources, err := recorded(documents)
	if err != nil {
		return err
	}
	watched := x.watches(ctx, resources)
	if m.Asked, err = a.all(ctx, resources); err != nil {
		return err
	}
	if err := pause(ctx, time.Until(since.Add(quiet))); err != nil {
		return err
	}
	again, err := a.documents(ctx)
	if err != nil {
		return err
	}
	m.Watched = watched && x.watches(ctx, resources)
	m.At = time.Now()
	// Of a change that is received late, the second is known in which it was made: it is to be another one.
	if err := pause(ctx, time.Until(m.At.Truncate(time.Second).Add(time.Second))); err != nil {
		return err
	}
	if is, err := a.version(ctx); err != nil || is != version {
		return cmp.Or(err, errChanged)
	}
	for i := range again {
		if again[i].Answer != documents[i].Answer {
			return errChanged
		}
	}
	m.Asked = append(m.Asked, again...)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// still waits until the server has not changed for a second, and returns its version and since when it has that.
func (a *api) still(ctx context.Context) (version string, since time.Time, err error) {
	for {
		is, err := a.version(ctx)
		if err != nil {
			return "", since, err
		}
		if is != version {
			version, since = is, time.Now()
		} else if time.Since(since) > time.Second {
			return version, since, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return "", since, fmt.Errorf("%w, at version %s", err, is)
		}
	}
}

// version returns that of the last change of anything: a list has it.
func (a *api) version(ctx context.Context) (string, error) {
	got, err := a.get(ctx, past.Request{Path: "/api/v1/namespaces?limit=1"})
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(got.Body), &list)
	}
	return list.Metadata.ResourceVersion, err
}

func (a *api) get(ctx context.Context, r past.Request) (past.Answer, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, a.host+r.Path, http.NoBody)
	if err != nil {
		return past.Answer{}, err
	}
	if r.Accept != "" {
		q.Header.Set("Accept", r.Accept)
	}
	got, err := a.client.Do(q)
	if err != nil {
		return past.Answer{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return past.Answer{Status: got.StatusCode, Body: string(text)}, err
}

// ask asks, and keeps of the answer what a journal may have.
func (a *api) ask(ctx context.Context, all *[]*asked, r past.Request, walk bool) (answer past.Answer, err error) {
	is := &asked{Request: r, Sent: time.Now(), Walk: walk}
	get := func(r past.Request) (past.Answer, error) { return a.get(ctx, r) }
	if walk {
		answer, err = pages(get, r)
	} else {
		answer, err = get(r)
	}
	is.Answer = asJournal(r.Path, answer)
	*all = append(*all, is)
	return answer, err
}

// documents returns what the API server says of itself.
func (a *api) documents(ctx context.Context) (all []*asked, err error) {
	for _, r := range []past.Request{
		{Path: "/api", Accept: past.AsGroups}, {Path: "/apis", Accept: past.AsGroups}, {Path: "/openapi/v3"},
		{Path: "/openapi/v3/apis/apps/v1"}, {Path: "/version"},
	} {
		if _, err := a.ask(ctx, &all, r, false); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// recorded returns the resources that the config has kubejournal record, each in the version that is preferred, as
// discovery has them. Events are served in two groups.
func recorded(documents []*asked) (all []resourceOf, err error) {
	for _, d := range documents[:2] {
		var groups discoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal([]byte(d.Body), &groups); err != nil {
			return nil, err
		}
		for _, g := range groups.Items {
			seen := map[string]bool{"leases": g.Name == "coordination.k8s.io"}
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					if !seen[r.Resource] && slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "list") {
						seen[r.Resource] = true
						path := d.Path + "/" + v.Version
						if g.Name != "" {
							path = d.Path + "/" + g.Name + "/" + v.Version
						}
						all = append(all, resourceOf{path, r.Resource, g.Name, r.Scope == discoveryv2.ScopeNamespace})
					}
				}
			}
		}
	}
	return all, nil
}

// watches reports whether kubejournal runs, is connected, and watches all resources.
func (x *incident) watches(ctx context.Context, resources []resourceOf) bool {
	if n := len(x.ledger.Outages); n > 0 && x.ledger.Outages[n-1].Until.IsZero() || x.daemon.Ready(ctx) != nil {
		return false
	}
	streams, err := x.daemon.Streams(ctx)
	if err != nil {
		return false
	}
	watching := map[string]bool{}
	for _, s := range streams {
		watching[s.Stream] = s.State == program.Watching
	}
	return !slices.ContainsFunc(resources, func(r resourceOf) bool {
		return !watching[strings.TrimSuffix(r.name+"."+r.group, ".")] && r.group != "events.k8s.io"
	})
}

// all asks for all resources.
func (a *api) all(ctx context.Context, resources []resourceOf) ([]*asked, error) {
	var group errgroup.Group
	group.SetLimit(askers)
	of := make([][]*asked, len(resources))
	for i, r := range resources {
		group.Go(func() (err error) {
			of[i], err = a.resource(ctx, r)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(of...), err
}

// resource asks for the objects of a resource: all, by selectors that select some, in pages, and some alone.
func (a *api) resource(ctx context.Context, r resourceOf) (all []*asked, err error) {
	ask := func(path, accept string, walk bool) (past.Answer, error) {
		return a.ask(ctx, &all, past.Request{Path: path, Accept: accept}, walk)
	}
	path := r.path + "/" + r.name
	got, err := ask(path, "", false)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", path, err, got.Body)
	}
	type form struct{ path, accept string }
	forms := []form{{path, past.AsTable}, {path, past.AsList}}
	n := len(list.Items)
	if n == 0 {
		n = 1
	} else {
		for _, query := range r.selectors(list.Items) {
			forms = append(forms, form{path + "?" + query, ""})
		}
	}
	alone := map[string]bool{}
	for i := range min(examples, len(list.Items)) {
		o := list.Items[i*len(list.Items)/min(examples, len(list.Items))]
		in := r.path
		if r.namespaced {
			in += "/namespaces/" + text(o, "/metadata/namespace")
			alone[in+"/"+r.name] = true
		}
		name := in + "/" + r.name + "/" + url.PathEscape(text(o, "/metadata/name"))
		forms = append(forms, form{name, ""}, form{name, past.AsTable})
	}
	for in := range maps.Keys(alone) {
		forms = append(forms, form{in, ""}, form{in, past.AsTable})
	}
	for _, f := range forms {
		if _, err := ask(f.path, f.accept, false); err != nil {
			return nil, err
		}
	}
	limit := fmt.Sprintf("%s?limit=%d", path, (n+2)/3)
	for _, accept := range []string{"", past.AsTable} {
		if _, err := ask(limit, accept, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// fields are what a resource can be selected by beside names, with the values' places in an object.
var fields = map[string][][2]string{
	"pods": {{"spec.nodeName", "/spec/nodeName"}, {"status.phase", "/status/phase"},
		{"spec.restartPolicy", "/spec/restartPolicy"}, {"status.podIP", "/status/podIP"}},
	"namespaces":             {{"status.phase", "/status/phase"}},
	"secrets":                {{"type", "/type"}},
	"services":               {{"spec.type", "/spec/type"}},
	"replicasets":            {{"status.replicas", "/status/replicas"}},
	"replicationcontrollers": {{"status.replicas", "/status/replicas"}},
	"events": {{"involvedObject.kind", "/involvedObject/kind"}, {"regarding.kind", "/regarding/kind"},
		{"reason", "/reason"}, {"type", "/type"}},
}

// selectors are queries that select some of the objects: by what one in the middle has.
func (r resourceOf) selectors(items []map[string]any) (all []string) {
	o := items[len(items)/2]
	by := func(kind, selector string) { all = append(all, kind+"="+url.QueryEscape(selector)) }
	by("fieldSelector", "metadata.name="+text(o, "/metadata/name"))
	if r.namespaced {
		by("fieldSelector", "metadata.namespace!="+text(o, "/metadata/namespace"))
	}
	for _, f := range fields[r.name] {
		if is := text(o, f[1]); is != "" {
			by("fieldSelector", f[0]+"="+is)
			by("fieldSelector", f[0]+"!="+is)
		}
	}
	for _, o := range items {
		labels, _ := value(o, "/metadata/labels").(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			is, _ := labels[name].(string)
			by("labelSelector", name+"="+is)
			by("labelSelector", "!"+name)
			by("labelSelector", name+" in (none,"+is+")")
			return all
		}
	}
	return all
}

// text is the text of a value, "" of none.
func text(o map[string]any, pointer string) string {
	if is := value(o, pointer); is != nil {
		return fmt.Sprint(is)
	}
	return ""
}

var token = regexp.MustCompile(`"continue":"([^"]+)"`)

// pages returns all pages of a list as one answer. Their tokens differ.
func pages(get func(past.Request) (past.Answer, error), r past.Request) (all past.Answer, err error) {
	for path, next := r.Path, ""; ; {
		r.Path = path + "&continue=" + next
		got, err := get(r)
		if err != nil {
			return all, err
		}
		all.Status = got.Status
		m := token.FindStringSubmatch(got.Body)
		all.Body += past.Same(past.Answer{Body: token.ReplaceAllString(got.Body, `"continue":"…"`)}).Body
		if m == nil {
			return all, nil
		}
		next = m[1]
	}
}

var (
	values = regexp.MustCompile(`"data":{[^{}]*}`)
	quoted = regexp.MustCompile(`:"[^"]*"`)
)

// asJournal returns an answer without what the config drops, and with what it redacts.
func asJournal(path string, a past.Answer) past.Answer {
	if strings.HasPrefix(path, "/openapi") {
		return a
	}
	a.Body = without(a.Body, "managedFields")
	if strings.Contains(path, "/secrets") {
		a.Body = without(a.Body, "kubectl.kubernetes.io/last-applied-configuration")
		a.Body = values.ReplaceAllStringFunc(a.Body, func(data string) string {
			return `"data":` + quoted.ReplaceAllString(data[len(`"data":`):], `:"REDACTED"`)
		})
	}
	return a
}

// without returns JSON without the members of a name.
func without(body, name string) string {
	var out []byte
	key := strconv.Quote(name) + ":"
	for {
		before, rest, found := strings.Cut(body, key)
		out = append(out, before...)
		if !found {
			return string(out)
		}
		d := json.NewDecoder(strings.NewReader(rest))
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return string(out) + key + rest // it is no JSON
		}
		body = rest[d.InputOffset():]
		if body = strings.TrimPrefix(body, ","); len(body) == len(rest)-int(d.InputOffset()) && len(out) > 0 &&
			out[len(out)-1] == ',' {
			out = out[:len(out)-1]
		}
	}
}

// keepMoments writes the moments where judgeMoments reads them.
func (x *incident) keepMoments() (err error) {
	f, err := os.Create(filepath.Join(x.out, momentsFile))
	if err != nil {
		return err
	}
	w := gzip.NewWriter(f)
	return errors.Join(json.NewEncoder(w).Encode(x.recorded), w.Close(), f.Close())
}

var (
	// written are warnings that are no doubts: the answer is compared all the same. docs/serve.md has them.
	written = regexp.MustCompile(`values are REDACTED|its stream keeps metadata alone`)
	// documented are doubts about what the API server says of itself, which kubejournal asks it for from time to time.
	documented = regexp.MustCompile(`what the API server served between`)
	lost       = regexp.MustCompile(`: GAP |which CustomResourceDefinitions there were`)
)

// outcome is how many answers were so.
type outcome struct{ same, doubtSame, doubtDifferent, different int }

// judgeMoments asks kubejournal serve what the API server was asked at each moment, and compares the answers.
func (x *incident) judgeMoments(ctx context.Context) error {
	content, err := invariant.ReadFile(filepath.Join(x.out, momentsFile))
	if err != nil {
		return err
	}
	var (
		moments []*snapshot
		ledger  Ledger
	)
	text, err := os.ReadFile(filepath.Join(x.out, "ledger.json"))
	if err := errors.Join(err, json.Unmarshal(content, &moments), json.Unmarshal(text, &ledger)); err != nil {
		return err
	}
	if len(moments) == 0 {
		return nil
	}
	var (
		faults []error
		all    strings.Builder
		sum    outcome
		whole  int
	)
	out := tabwriter.NewWriter(&all, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "after step\twatched\tanswers\tsame\tin doubt, same\tin doubt, different\tdifferent\t")
	row := func(after, watched string, t outcome) {
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", after, watched,
			t.same+t.doubtSame+t.doubtDifferent+t.different, t.same, t.doubtSame, t.doubtDifferent, t.different)
	}
	for _, m := range moments {
		for _, o := range ledger.Outages {
			// What is not confirmed before an outage is not believed: the last seconds, or up to a GAP some minutes.
			if m.At.Before(o.Until) {
				m.Watched = m.Watched && m.At.Add(unconfirmed).Before(o.From)
				m.Lost = true
			}
		}
		t, err := x.judgeMoment(ctx, m)
		if err != nil {
			faults = append(faults, fmt.Errorf("at %s, after %q: %w", clock(m.At), m.After, err))
		}
		watched := "no"
		if m.Watched {
			watched, whole = "yes", whole+1
		}
		row(m.After, watched, t)
		sum.same, sum.doubtSame = sum.same+t.same, sum.doubtSame+t.doubtSame
		sum.doubtDifferent, sum.different = sum.doubtDifferent+t.doubtDifferent, sum.different+t.different
	}
	row(fmt.Sprintf("%d moments", len(moments)), fmt.Sprint(whole), sum)
	if whole == 0 {
		faults = append(faults, errors.New("kubejournal watched all at no moment"))
	}
	err = out.Flush()
	fmt.Printf("\nWhat kubejournal serve answers, beside the API server at the same moment:\n\n%s\n", all.String())
	return errors.Join(append(faults, err, x.keep("moments.txt", all.String()))...)
}

// judgeMoment compares the answers of a moment. One that differs is a fault unless it is in doubt; and so is a doubt
// where kubejournal watched.
func (x *incident) judgeMoment(ctx context.Context, m *snapshot) (t outcome, err error) {
	server, err := serve.New(ctx, serve.Options{
		Paths: []string{filepath.Join(x.out, "journal.jsonl")}, At: argument.Moment{Time: m.At},
	})
	if err != nil {
		return t, err
	}
	defer server.Close()
	var faults []error
	for _, a := range m.Asked {
		var doubts []string
		get := func(r past.Request) (past.Answer, error) {
			got, warnings := past.Warned(server, r)
			for _, w := range warnings {
				if !written.MatchString(w) {
					doubts = append(doubts, w)
				}
			}
			return got, nil
		}
		var got past.Answer
		if a.Walk {
			got, err = pages(get, a.Request)
		} else {
			got, err = get(a.Request)
		}
		if err == nil {
			err = a.compare(got, m.At)
		}
		doubt := len(doubts) > 0
		switch {
		case err == nil && !doubt:
			t.same++
		case err == nil:
			t.doubtSame++
		case doubt:
			t.doubtDifferent++
			err = nil
		default:
			t.different++
		}
		deserved := func(w string) bool { return documented.MatchString(w) || m.Lost && lost.MatchString(w) }
		if i := slices.IndexFunc(doubts, func(w string) bool { return !deserved(w) }); i >= 0 && m.Watched {
			undeserved := doubts[i]
			err = errors.Join(err, fmt.Errorf("it is in doubt: %s", undeserved))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", a.Path, a.Accept, err))
		}
	}
	if n := len(faults) - examples; n > 0 {
		faults = append(faults[:examples], fmt.Errorf("and %d more", n))
	}
	return t, errors.Join(faults...)
}

// compare compares an answer of the past with the API server's.
func (a *asked) compare(got past.Answer, at time.Time) error {
	if a.Accept == past.AsGroups {
		return sameResources(got, a.Answer)
	}
	if g, w := past.Same(got), past.Same(a.Answer); g != w {
		return errors.New(past.Difference(g, w))
	}
	if a.Walk {
		return nil // its ages are those of the list
	}
	is, want := past.Ages.FindAllString(got.Body, -1), past.Ages.FindAllString(a.Body, -1)
	for i := range is {
		if err := sameAge(is[i], want[i], at.Sub(a.Sent)); err != nil {
			return err
		}
	}
	return nil
}

// sameAge returns an error unless two ages can be of the same object, the first of them taken a while after the second.
// The longer an age is, the more it is rounded.
func sameAge(got, want string, later time.Duration) error {
	g, gotErr := time.ParseDuration(strings.Trim(got, `[,"`))
	w, wantErr := time.ParseDuration(strings.Trim(want, `[,"`))
	if err := errors.Join(gotErr, wantErr); err != nil {
		return err
	}
	unit := time.Second
	if g >= 10*time.Minute {
		unit = time.Minute
	}
	if d := g - w; d < -unit || d > later+unit {
		return fmt.Errorf("an age is %s, and was %s %s before", g, w, later)
	}
	return nil
}

// sameResources compares what discovery says of each resource that is in both, and of each in one version at least.
func sameResources(got, want past.Answer) error {
	is, err := past.Resources(got)
	if err != nil {
		return err
	}
	was, err := past.Resources(want)
	if err != nil {
		return err
	}
	var faults []error
	served := map[string]bool{}
	withoutVersion := func(name string) string {
		parts := strings.Split(name, "/")
		return parts[0] + "/" + parts[2]
	}
	for name, text := range is {
		served[withoutVersion(name)] = true
		if text != was[name] {
			faults = append(faults, fmt.Errorf("%s: %s, want %s", name, text, was[name]))
		}
	}
	for name := range was {
		if !served[withoutVersion(name)] {
			faults = append(faults, fmt.Errorf("%s is not there", name))
		}
	}
	return errors.Join(faults...)
}
