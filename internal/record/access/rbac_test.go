package access

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/config"
	"kubejournal/internal/record/discovery"
)

var update = flag.Bool("update", false, "write the golden files anew")

func inGroup(name string) *string { return &name }

// configOf places entries as a file would.
func configOf(entries ...config.Resource) *config.Config {
	for i := range entries {
		entries[i].Entry, entries[i].File, entries[i].Line = fmt.Sprintf("resources[%d]", i), "kubejournal.yaml", i+2
	}
	return &config.Config{Resources: entries}
}

// replicated is a config of several replicas of some shards.
func replicated(shards int, entries ...config.Resource) *config.Config {
	cfg := configOf(entries...)
	cfg.LeaderElection.LeaseName, cfg.Shard.Count = "kubejournal", shards
	return cfg
}

// The golden files are what users apply, so their text is looked at as a whole.
func TestRBACText(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg       *config.Config
		enumerate bool
	}{
		"cluster": {cfg: configOf(
			config.Resource{Name: "pods"}, config.Resource{Name: "deploy"}, config.Resource{Name: "cm", LabelSelector: "app=web"},
			config.Resource{Name: "sts"}, config.Resource{Name: "events"},
		)},
		"namespaces": {cfg: configOf(
			config.Resource{Name: "pods", Namespaces: []string{"web", "null"}},
			config.Resource{Name: "secrets", Namespaces: []string{"web"}, FieldSelector: "metadata.name=login"},
			config.Resource{Name: "nodes", Namespace: "web"},
			config.Resource{Name: "pods", LabelSelector: "app=web"},
			config.Resource{Name: "jobs", Namespaces: []string{"null"}},
			config.Resource{Name: "configmaps", Namespaces: []string{"web"}},
			config.Resource{Name: "configmaps", Namespaces: []string{"web"}, FieldSelector: "metadata.name=a"},
		)},
		"replicas": {cfg: replicated(2, config.Resource{Name: "pods", Namespaces: []string{"web"}})},
		"custom": {cfg: configOf(
			config.Resource{Name: "widgets.v1.example.com"}, config.Resource{Name: "Gizmo", Group: inGroup("example.com"), Namespaces: []string{"web"}},
			config.Resource{Name: "deployments.v7.apps"},
		)},
		"wildcards": {cfg: configOf(
			config.Resource{Name: "*", Group: inGroup("apps"), Exclude: []string{"ds"}}, config.Resource{Name: "deploy"},
			config.Resource{Name: "pods", Group: inGroup("*"), Namespaces: []string{"web"}}, config.Resource{Name: "*", Group: inGroup("*"), Namespaces: []string{"db"}},
			config.Resource{Name: "*", Group: inGroup("batch"), Namespace: "web"},
			config.Resource{Name: "*", Group: inGroup("storage.k8s.io"), Namespace: "web"},
		)},
		"everything": {cfg: configOf(
			config.Resource{Name: "secrets", Namespaces: []string{"web"}}, config.Resource{Name: "*", Group: inGroup("*"), Exclude: []string{"events"}},
		)},
		"enumerated": {enumerate: true, cfg: configOf(
			config.Resource{Name: "*", Group: inGroup("apps"), Exclude: []string{"ds"}}, config.Resource{Name: "deploy"},
			config.Resource{Name: "*", Group: inGroup("batch"), Namespaces: []string{"web"}},
		)},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := RBAC(tc.cfg, "kubejournal.yaml", discovery.Offline(),
				RBACOptions{Offline: true, Enumerate: tc.enumerate}, Subject{Name: "kubejournal", Namespace: "audit", Account: "journal"})
			if err != nil || len(warnings) > 0 {
				t.Fatalf("got %v, %v", err, warnings)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil { //nolint:gosec // a file of the repository
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// role is a Role or ClusterRole of the output, bound to the service account.
type role struct {
	namespace string
	rules     []rbacv1.PolicyRule
}

// parseRBAC reads the output as the API server would, strictly.
func parseRBAC(t *testing.T, text []byte) []role {
	t.Helper()
	var roles []role
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return roles
		}
		if err != nil {
			t.Fatal(err)
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		strict := func(into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
		}
		switch kind.Kind {
		case "": // the comment at the top
		case "Role", "ClusterRole":
			var r rbacv1.Role
			strict(&r)
			if (kind.Kind == "Role") != (r.Namespace != "") || r.Name == "" || r.Labels["app.kubernetes.io/name"] != "kubejournal" {
				t.Errorf("%s %s/%s", kind.Kind, r.Namespace, r.Name)
			}
			roles = append(roles, role{r.Namespace, r.Rules})
		case "RoleBinding", "ClusterRoleBinding":
			var b rbacv1.RoleBinding
			strict(&b)
			if last := roles[len(roles)-1]; b.Namespace != last.namespace || b.RoleRef.Kind+"Binding" != kind.Kind || b.RoleRef.Name != b.Name || len(b.Subjects) != 1 {
				t.Errorf("%s %s/%s does not bind the role before it: %+v", kind.Kind, b.Namespace, b.Name, b)
			}
		default:
			t.Errorf("kind %q", kind.Kind)
		}
	}
}

// grants reports whether roles allow a right, as RBAC would.
func grants(roles []role, right discovery.Right) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(roles, func(r role) bool {
		return (r.namespace == "" || r.namespace == right.Namespace) && slices.ContainsFunc(r.rules, func(p rbacv1.PolicyRule) bool {
			return has(p.Verbs, right.Verb) && has(p.APIGroups, right.Resource.Group) && has(p.Resources, right.Resource.Resource) &&
				(len(p.ResourceNames) == 0 || slices.Contains(p.ResourceNames, right.Name))
		})
	})
}

// Whatever a config names: the rights suffice for every stream, and no resource of any rule can be left out.
func TestRBACIsLeast(t *testing.T) {
	const seed = 20261121
	rng := rand.New(rand.NewPCG(seed, 2))
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	resolver := discovery.Offline()
	for round := range 60 {
		var entries []config.Resource
		for range 1 + rng.IntN(6) {
			e := config.Resource{Name: pick("pods", "cm", "secrets", "nodes", "deploy", "statefulsets.apps", "jobs", "widgets.example.com", "*", "*")}
			if e.Name == "*" {
				e.Group = inGroup(pick("*", "", "apps", "batch", "storage.k8s.io"))
			}
			if e.Name != "nodes" && rng.IntN(2) == 0 {
				e.Namespaces = [][]string{{"web"}, {"db"}, {"web", "db"}}[rng.IntN(3)]
			}
			if rng.IntN(4) == 0 {
				e.FieldSelector = "metadata.name=" + pick("a", "b")
			}
			entries = append(entries, e)
		}
		cfg := configOf(entries...)
		enumerate := rng.IntN(2) == 0
		text, warnings, err := RBAC(cfg, "k.yaml", resolver, RBACOptions{Enumerate: enumerate},
			Subject{Name: "kubejournal", Namespace: "audit", Account: "kubejournal"})
		if err != nil {
			continue // the same stream twice
		}
		roles := parseRBAC(t, text)
		var wanted []discovery.Right
		for i, resolved := range resolver.ResolveAll(cfg.Resources) {
			for _, st := range resolved.Streams {
				wanted = append(wanted, st.Rights()...)
			}
			missing := new(discovery.NotFoundError)
			if !errors.As(resolved.Err, &missing) || missing.Wildcard {
				continue
			}
			named, _ := resolver.Named(cfg.Resources[i])
			for _, ns := range append(cfg.Resources[i].Namespaces, "")[:max(1, len(cfg.Resources[i].Namespaces))] {
				wanted = append(wanted, discovery.Right{Verb: "watch", Resource: named[0], Namespace: ns, Name: discovery.OneName(cfg.Resources[i].FieldSelector)})
			}
		}
		for _, right := range wanted {
			if !grants(roles, right) {
				t.Fatalf("seed %d, round %d: %+v is not allowed by\n%s(%v)", seed, round, right, text, warnings)
			}
		}
		if cameToNothing(resolver, cfg) {
			continue
		}
		for i := range roles {
			for j, rule := range roles[i].rules {
				for k, resource := range rule.Resources {
					if resource == "customresourcedefinitions" || slices.Equal(rule.Verbs, []string{"get"}) {
						continue
					}
					roles[i].rules[j].Resources = slices.Delete(slices.Clone(rule.Resources), k, k+1)
					if !slices.ContainsFunc(wanted, func(r discovery.Right) bool { return !grants(roles, r) }) {
						t.Fatalf("seed %d, round %d: %s of %s is not needed in\n%s", seed, round, resource, rule.APIGroups, text)
					}
					roles[i].rules[j].Resources = rule.Resources
				}
			}
		}
	}
}

// cameToNothing reports whether a wildcard covers nothing now: its rule is for what comes.
func cameToNothing(resolver *discovery.Resolver, cfg *config.Config) bool {
	return slices.ContainsFunc(resolver.ResolveAll(cfg.Resources), func(r discovery.Resolution) bool {
		missing := new(discovery.NotFoundError)
		return errors.As(r.Err, &missing) && missing.Wildcard
	})
}

// The order of the entries is no part of the output, but for what is said about them.
func TestRBACIsDeterministic(t *testing.T) {
	names := []string{"pods", "cm", "deploy", "jobs", "nodes", "widgets.example.com", "secrets"}
	var first string
	for range 20 {
		var entries []config.Resource
		for _, n := range names {
			entries = append(entries, config.Resource{Name: n})
		}
		text, _, err := RBAC(configOf(entries...), "k", discovery.Offline(), RBACOptions{Offline: true},
			Subject{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		var rules strings.Builder
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") {
				rules.WriteString(line)
			}
		}
		if first == "" {
			first = rules.String()
		}
		if diff := cmp.Diff(first, rules.String()); diff != "" {
			t.Fatalf("another order of entries (-want +got):\n%s", diff)
		}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	}
}
