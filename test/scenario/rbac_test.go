package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	resources "kubejournal/internal/record/discovery"
)

// roleKinds are the resources of what kubejournal rbac prints.
var roleKinds = map[string]string{
	"Role": "roles", "RoleBinding": "rolebindings", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
}

// ask runs the program to its end.
func (d *daemon) ask(args ...string) (status int, stdout, stderr string) {
	d.t.Helper()
	out, err := os.CreateTemp(d.dir, "stdout-*.yaml") // not looked through as what the daemon wrote
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	p := launch(d.t, d.dir, out, args...)
	status = p.exit()
	content, err := os.ReadFile(out.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	return status, string(content), p.log()
}

// documents takes YAML apart.
func documents(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	for r := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		var o object
		if err := errors.Join(err, yaml.Unmarshal(document, &o)); err != nil {
			t.Fatal(err)
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// apply does what kubectl apply does.
func (s *server) apply(t *testing.T, o object) {
	t.Helper()
	u := o.unstructured()
	gvr := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: roleKinds[u.GetKind()]}
	_, err := s.client.Resource(gvr).Namespace(u.GetNamespace()).
		Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "scenario", Force: true})
	if err != nil {
		t.Fatal(err)
	}
}

// A daemon whose identity has what kubejournal rbac prints, and nothing else, journals everything that its config names;
// and without any one of those rules some of it is pending.
func TestLeastRights(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 2)
	kubeconfig, err := s.User(t.Context(), "least", nil)
	if err != nil {
		t.Fatal(err)
	}
	const app = "least" // what others write on this cluster meanwhile is not for this test
	entries := []entry{
		{Kind: configMaps, Namespaces: ns}, {Kind: secrets, Namespaces: ns[:1]}, {Kind: deployments, Selector: "app=" + app}, {Kind: widgets, Selector: "app=" + app},
	}
	sc := play(t, s, entries)
	d := sc.daemon
	d.configure(kubeconfig, entries)
	// One object of a resource that it may not see otherwise.
	content, err := os.ReadFile(d.config())
	if err != nil {
		t.Fatal(err)
	}
	var config object
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	config["resources"] = append(config["resources"].([]any), object{
		"resource": "services", "namespaces": ns[1:], "fieldSelector": "metadata.name=web",
	})
	if content, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.config(), content, 0o600); err != nil {
		t.Fatal(err)
	}
	oneService := "services?namespace=" + ns[1] + "&fieldSelector=metadata.name%3Dweb"

	// Discovery is all that this takes.
	status, printed, stderr := d.ask("rbac", "--config", d.config(), "--name", "least", "--namespace", "kube-system")
	if status != 0 || stderr != "" {
		t.Fatalf("rbac: status %d, %s", status, stderr)
	}
	validate := func() (int, string, string) { return d.ask("validate", "--server", "--config", d.config()) }
	if status, stdout, _ := validate(); status != 1 || strings.Count(stdout, "pending: may not list and watch") != 6 {
		t.Errorf("validate before there are any rights: status %d\n%s", status, stdout)
	}
	all := documents(t, printed)
	for _, o := range all {
		s.apply(t, o)
	}
	eventually(t, soon, "all rights are in force", func() error {
		if status, _, stderr := validate(); status != 0 || stderr != "" {
			return fmt.Errorf("status %d, %s", status, stderr)
		}
		return nil
	})

	d.start()
	for _, e := range entries {
		for _, n := range ns {
			if _, err := sc.create(t.Context(), e.Kind, n, "one", app, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, src := range sc.Ledger.Sources {
		d.await(src.Stream(), "Watching")
	}
	d.await(oneService, "Watching")
	if log := d.process.log(); strings.Contains(log, "forbidden") {
		t.Errorf("something was forbidden:\n%s", log)
	}
	noGap(t, sc.verify(false))
	d.stop()

	// Each rule goes once, with those of its place in the other roles: the streams that it is for wait, and no others.
	roles := slices.DeleteFunc(all, func(o object) bool { return o["rules"] == nil })
	var waiting []string
	for i, more := 0, true; more; i++ {
		var gone []grant
		more = false
		for _, o := range roles {
			rules := o["rules"].([]any)
			if i < len(rules) {
				gone = append(gone, grant{rules[i].(map[string]any), o.unstructured().GetNamespace()})
				less := maps.Clone(o)
				less["rules"] = slices.Delete(slices.Clone(rules), i, i+1)
				o = less
			}
			more = more || i+1 < len(rules)
			s.apply(t, o)
		}
		eventually(t, soon, fmt.Sprint("they are missed: ", gone), func() error {
			status, stdout, stderr := validate()
			var want []string
			waiting, want = nil, nil
			for _, row := range streamRows(stdout) {
				if row.waits {
					waiting = append(waiting, row.stream)
				}
				if slices.ContainsFunc(gone, func(g grant) bool { return g.isFor(row.stream) }) {
					want = append(want, row.stream)
				}
			}
			identity := slices.ContainsFunc(gone, func(g grant) bool { return g.rule["verbs"].([]any)[0] == "get" })
			if !slices.Equal(waiting, want) || (status == 1) != (len(want) > 0) || strings.Contains(stderr, "kube-system") != identity {
				return fmt.Errorf("status %d, want %q to wait\n%s%s", status, want, stdout, stderr)
			}
			return nil
		})
	}
	if len(waiting) == 0 {
		t.Fatal("nothing waits at last")
	}
	d.launch()
	for _, stream := range waiting {
		d.await(stream, "Pending")
	}
	d.await(oneService, "Watching")
	d.stop()
}

// grant is a rule of the role in a namespace, "" for that of all.
type grant struct {
	rule      map[string]any
	namespace string
}

// isFor reports whether a stream needs it.
func (g grant) isFor(stream string) bool {
	name, scope, _ := strings.Cut(stream, "?")
	gr := schema.ParseGroupResource(name)
	return slices.Contains(g.rule["apiGroups"].([]any), any(gr.Group)) && slices.Contains(g.rule["resources"].([]any), any(gr.Resource)) &&
		(g.namespace == "" || strings.Contains(scope+"&", "namespace="+g.namespace+"&"))
}

// streamRow is a row of the table of validate --server.
type streamRow struct {
	stream string
	waits  bool
}

func streamRows(table string) []streamRow {
	var rows []streamRow
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[0], "resources[") {
			rows = append(rows, streamRow{fields[2], fields[4] == "pending:"})
		}
	}
	return rows
}

// The table that stands in for a server is that of the server in these tests, where that is the newest.
func TestBuiltinTable(t *testing.T) {
	s := shared.get(t)
	version, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(s.RESTConfig(), s.transport)
	if err != nil {
		t.Fatal(err)
	}
	real := resources.New(client)
	if err := real.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	describe := func(r *resources.Resolver) map[string]string {
		all := map[string]string{}
		for _, o := range r.Offers() {
			if g := o.GVR.Group; !strings.Contains(g, ".") || strings.HasSuffix(g, ".k8s.io") { // not of other scenarios
				all[o.GVR.GroupResource().String()] = fmt.Sprint(o.Kind, o.Namespaced, o.ShortNames, o.Same, o.GVR.Version)
			}
		}
		return all
	}
	has, want := describe(resources.Offline()), describe(real)
	for name, about := range want {
		if has[name] != about && (has[name] != "" || strings.HasPrefix(version, "v1.36.")) {
			t.Errorf("%s: the table has %q, the server %q", name, has[name], about)
		}
	}
	for name := range has {
		if want[name] == "" && strings.HasPrefix(version, "v1.36.") {
			t.Errorf("%s is in the table and not on the server", name)
		}
	}
}
