package access

import (
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
)

// serve starts a server, and asks it. Its policy is that of an identity whose rights are all but those that denied has,
// written as "verb resource namespace", of which it gives the reason "no rule".
func serve(t *testing.T, denied ...string) (*fake.Server, *Server) {
	t.Helper()
	srv := fake.New(fake.Options{})
	t.Cleanup(srv.Close)
	srv.SetPolicy(func(a fake.Attributes) (bool, string) {
		asked := strings.TrimSpace(a.Verb + " " + a.Resource + " " + a.Namespace)
		return !slices.Contains(denied, asked), "no\nrule"
	})
	srv.AddResource(fake.Resource{
		Group: "example.com", Version: "v1", Resource: "probes", Kind: "Probe", Verbs: []string{"get"},
	})
	kubeconfig, err := srv.Kubeconfig(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Ask(t.Context(), config.Kubernetes{Kubeconfig: kubeconfig}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return srv, s
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	noEnv := func(string) (string, bool) { return "", false }
	cfg, err := config.Parse([]byte(text), "k.yaml", config.Overrides{}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// found is an Examination as text: its rows by stream and state, and what is wrong.
func found(e *Examination) (all []string) {
	for _, r := range e.Rows {
		all = append(all, r.Entry+" "+r.Resource+" "+r.Stream+" "+r.Version+": "+r.State)
	}
	for what, faults := range map[string]config.Faults{"fault": e.Faults, "pending": e.Pending, "warning": e.Warnings} {
		for _, f := range faults {
			all = append(all, what+" "+f.Error())
		}
	}
	slices.Sort(all)
	return all
}

func TestExamine(t *testing.T) {
	const grant = "; grant it, see 'kubejournal rbac --help'"
	pods := "{resource: pods, namespaces: [default]}"
	for name, c := range map[string]struct {
		config string
		denied []string
		habit  *fake.Habit // of configmaps
		want   []string
	}{
		"all is well": {
			config: "resources: [po, " + pods + ", deployments.v1.apps]",
			want: []string{
				"resources[0] po pods v1: ok", "resources[1] pods pods?namespace=default v1: ok",
				"resources[2] deployments.v1.apps deployments.apps v1: ok",
			},
		},
		"one right is missing": {
			config: "resources: [secrets]", denied: []string{"watch secrets"},
			want: []string{
				"pending k.yaml:1: resources[0]: secrets: this identity may not watch (no rule)" + grant,
				"resources[0] secrets secrets v1: pending: may not watch (no rule)",
			},
		},
		"rights are asked for in the namespace": {
			config: "resources: [" + pods + "]", denied: []string{"list pods default", "watch pods default"},
			want: []string{
				"pending k.yaml:1: resources[0].namespaces: pods?namespace=default: this identity may not list" +
					" and watch (no rule)" + grant,
				"resources[0] pods pods?namespace=default v1: pending: may not list and watch (no rule)",
			},
		},
		"the cluster's identity": {
			config: "resources: [pods]", denied: []string{"get namespaces kube-system"},
			want: []string{
				"resources[0] pods pods v1: ok",
				"warning kubejournal: warning: this identity may not get (no rule) the namespace kube-system:" +
					" run cannot tell whether a checkpoint belongs to the cluster" + grant,
			},
		},
		"what is not there": {
			config: "resources: [secret, gizmos.example.com]",
			want: []string{
				"pending k.yaml:1: resources[1]: the server has no resource \"gizmos.example.com\";" +
					" it starts once that is there, see 'kubejournal resources' for what is",
				"resources[0] secret secrets v1: ok",
				"resources[1] gizmos.example.com - -: pending: the server has no resource \"gizmos.example.com\"",
			},
		},
		"what cannot be watched": {
			config: "resources: [probes.example.com]",
			want: []string{
				"pending k.yaml:1: resources[0]: probes.example.com cannot be journalled: it needs list and" +
					" watch, the server offers get; see 'kubejournal resources' for what can be",
				"resources[0] probes.example.com - -: pending: probes.example.com cannot be journalled: it needs" +
					" list and watch, the server offers get",
			},
		},
		"namespaces for what has none": {
			config: "resources: [{resource: namespaces, namespaces: [default]}]",
			want: []string{
				"fault k.yaml:1: resources[0].namespaces: namespaces have no namespaces; leave namespaces out",
				"resources[0] namespaces - -: config fault",
			},
		},
		"a field that is not selected by": {
			config: "resources: [{resource: cm, fieldSelector: spec.x=1, namespaces: [default, kube-system]}]",
			want: []string{
				"fault k.yaml:1: resources[0].fieldSelector: the server does not select configmaps by \"spec.x=1\":" +
					" \"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\";" +
					" take a field that it knows, or 'filter'",
				"resources[0] cm configmaps?namespace=default&fieldSelector=spec.x%3D1 v1: config fault",
				"resources[0] cm configmaps?namespace=kube-system&fieldSelector=spec.x%3D1 v1: config fault",
			},
		},
		"lists without a version": {
			config: "resources: [cm]", habit: &fake.Habit{ListVersion: fake.NoVersion},
			want: []string{
				"pending k.yaml:1: resources[0]: configmaps: its lists have no resourceVersion, so it cannot be" +
					" followed; remove or exclude it, or use an API server of it that supports watching",
				"resources[0] cm configmaps v1: failing: its lists have no resourceVersion, so it cannot be followed",
			},
		},
		"names that keep things out": {
			config: "resources: [{resource: '*', group: apps, exclude: [deploymentz]}]\n" +
				"redact: [{resource: nothing.example.com, fields: [spec]}]",
			want: []string{
				"resources[0] *.apps deployments.apps v1: ok",
				"warning k.yaml:1: resources[0].exclude[0]: warning: the server has no resource \"deploymentz\"" +
					" (did you mean deployments?); nothing of that name is there to be excluded now",
				"warning k.yaml:2: redact[0].resource: warning: the server has no resource" +
					" \"nothing.example.com\"; nothing of that name is there to be redacted now",
			},
		},
		"a namespace that is missing": {
			config: "resources: [{resource: cm, namespaces: [default, web]}]",
			want: []string{
				"resources[0] cm configmaps?namespace=default v1: ok",
				"resources[0] cm configmaps?namespace=web v1: ok",
				"warning k.yaml:1: resources[0].namespaces[1]: warning: the server has no namespace \"web\";" +
					" nothing is journalled of it until there is one",
			},
		},
		"the Lease": {
			config: "resources: [pods]\nleaderElection: {leaseName: l, leaseNamespace: web}",
			denied: []string{"update leases web", "create leases web"},
			want: []string{
				"pending k.yaml:2: leaderElection.leaseName: Lease web/l: this identity may not update and" +
					" create (no rule)" + grant,
				"pending k.yaml:2: leaderElection.leaseNamespace: the server has no namespace \"web\"; create" +
					" it, or name another one",
				"resources[0] pods pods v1: ok",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, s := serve(t, c.denied...)
			srv.SetHabit(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, c.habit)
			e, err := s.Examine(t.Context(), parse(t, c.config))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(c.want, found(e)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What may be watched in a namespace is written as entries, and what may not be is counted.
func TestWatchable(t *testing.T) {
	_, s := serve(t, "watch secrets default", "list leases default", "watch events default", "list pods",
		"watch namespaces")
	offers, err := s.Watchable(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	write := func(all bool) string {
		var b strings.Builder
		if err := WriteEntries(&b, offers, "default", all); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	const in = "namespaces: [default]}"
	short := write(false)
	for text, want := range map[string]bool{
		"- {resource: pods, " + in + " # Pod, namespaced, v1, short po": true,
		"- {resource: deployments.apps, " + in:                          true,
		"secrets":                                                       false, "leases": false,
		"# and 4 that this identity may not list and watch; --all shows them": true,
	} {
		if strings.Contains(short, text) != want {
			t.Errorf("%q: want %v in %s", text, want, short)
		}
	}
	long := write(true)
	for _, text := range []string{
		"# - {resource: secrets, " + in + " # Secret, namespaced, v1; may not watch (no rule)",
		"# - namespaces # Namespace, cluster-scoped, v1, short ns; may not watch (no rule)",
	} {
		if !strings.Contains(long, text) || strings.Contains(long, "--all") {
			t.Errorf("%q is not in %s", text, long)
		}
	}
}

// The kubeconfig is that of the config, else those of KUBECONFIG, else that in the home folder; what is not found is
// named, with the place.
func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		content := "apiVersion: v1\nkind: Config\ncurrent-context: c\n" +
			"contexts: [{name: c, context: {cluster: c}}, {name: d, context: {cluster: d}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://" + name + "'}}," +
			" {name: d, cluster: {server: 'https://" + name + ".d'}}]\n"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	given, first, second, home := file("given"), file("first"), file("second"), file("home")
	none := filepath.Join(dir, "none")
	before := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = before })
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	const remedy = ", and this is no pod with a service account; set kubernetes.kubeconfig, --kubeconfig or KUBECONFIG"
	for _, c := range []struct {
		k          config.Kubernetes
		env, home  string
		want, fail string
	}{
		{k: config.Kubernetes{Kubeconfig: given}, env: first, home: home, want: "https://given"},
		{k: config.Kubernetes{Kubeconfig: given, Context: "d"}, env: first, home: home, want: "https://given.d"},
		{env: first + ":" + second, home: home, want: "https://first"},
		{env: none + ":" + second, home: home, want: "https://second"},
		{home: home, want: "https://home"},
		{env: none, home: home, fail: "find the API server: " + none + " does not exist" + remedy},
		{home: none, fail: "find the API server: neither --kubeconfig nor KUBECONFIG is set, " + none +
			" does not exist" + remedy},
		{k: config.Kubernetes{Context: "e"}, home: home, fail: `find the API server: context "e" does not exist` +
			"; set kubernetes.kubeconfig, --kubeconfig or KUBECONFIG"},
	} {
		t.Setenv("KUBECONFIG", c.env)
		clientcmd.RecommendedHomeFile = c.home
		got, err := Find(c.k)
		switch {
		case err != nil && (c.fail == "" || NotFound(err).Error() != c.fail):
			t.Errorf("%+v: %v, want %s%s", c, NotFound(err), c.want, c.fail)
		case err == nil && got.Host != c.want:
			t.Errorf("%+v: %s", c, got.Host)
		}
	}
}

func TestRemedy(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "proxy:1", User: url.UserPassword("a", "hunter2")}
	cut := errors.New("connection refused")
	for _, c := range []struct {
		err   error
		host  string
		proxy *url.URL
		want  string
	}{
		{apierrors.NewBadRequest("no"), "http://h", nil, "; the kubeconfig has no https:// before its address"},
		{apierrors.NewBadRequest("no"), "HTTPS://h", nil, ""},
		{cut, "https://h:6443", nil, ""},
		{cut, "https://h:6443", proxy, "; it is asked through the proxy http://xxxxx@proxy:1 of the environment:" +
			" if that cannot reach it, add h to NO_PROXY"},
		{apierrors.NewUnauthorized("no"), "https://h", proxy, ""},
	} {
		if got := Remedy(c.err, c.host, c.proxy); got != c.want {
			t.Errorf("%v of %s: %q, want %q", c.err, c.host, got, c.want)
		}
	}
}

// A list is read for its version alone; what is none is refused.
func TestListVersion(t *testing.T) {
	for text, want := range map[string]string{
		`{"items":[{"a":[{}]}],"metadata":{"resourceVersion":"7"}}`: "7",
		`{"metadata":{"resourceVersion":"7"},"items":null}`:         "7",
		`{"metadata":{},"items":[]}`:                                "",
		`{"metadata":{"resourceVersion":"7"},"other":[1]}`:          "error: it has no items",
		`[]`:                                "error: it is not a JSON object",
		`{"items":[{"metadata":{"a":1}},`:   "error: EOF",
		`{"metadata":{"resourceVersion":1}`: "error: json: ",
	} {
		got, err := listVersion(strings.NewReader(text))
		if err != nil {
			got = "error: " + err.Error()
		}
		if typeFault := "error: json: "; got != want && (want != typeFault || !strings.HasPrefix(got, typeFault)) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
