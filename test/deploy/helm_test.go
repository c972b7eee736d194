package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

const release, releaseNamespace = "journal", "helm"

var chart = filepath.Join(root, "deploy", "helm", "kubejournal")

// helmed is what helm template prints for values, and the notes that helm install shows.
func helmed(t *testing.T, values string) (m manifests, notes string, err error) {
	t.Helper()
	return helmedBy(t, engine.Engine{}, releaseNamespace, values)
}

// helmedBy is what an engine makes of the chart, which may have a server to look things up.
func helmedBy(t *testing.T, by engine.Engine, namespace, values string) (m manifests, notes string, err error) {
	t.Helper()
	return helmedOn(t, by, namespace, values)
}

// helmedOn is that on a server that has these APIs too.
func helmedOn(t *testing.T, by engine.Engine, namespace, values string, apis ...string) (m manifests, notes string, err error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.APIVersions = append(capabilities.APIVersions, apis...)
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, given, options, capabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := by.RenderWithContext(t.Context(), c, all)
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "NOTES.txt" {
			notes = files[name]
		} else if path.Ext(name) == ".yaml" {
			m = append(m, parse(t, []byte(files[name]))...)
		}
	}
	return m, notes, nil
}

func TestHelm(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		notes  []string // what helm install must say
		silent []string // and what it must not
	}{
		"deployment":     {values: "mode: deployment", silent: []string{"WARNING"}},
		"daemonset":      {values: "mode: daemonset", notes: []string{"65532", "privileged"}, silent: []string{"WARNING"}},
		"prepared nodes": {values: "{mode: daemonset, node: {prepare: true}}", silent: []string{"WARNING", "must be on each node"}},
		"sidecar":        {values: "mode: sidecar", notes: []string{"emptyDir"}},
		"kept sidecar":   {values: "{mode: sidecar, persistence: {enabled: true}}", silent: []string{"WARNING"}},
		"statefulset":    {values: "mode: statefulset", notes: []string{"Of the 2 replicas one writes", " journal-kubejournal-0 -- /kubejournal status"}, silent: []string{"WARNING"}},
		"shards": {
			values: "{mode: statefulset, replicas: 3, shards: 2, config: {leaderElection: {leaseName: mine, leaseDuration: 20s}}}",
			notes:  []string{"Of the 3 replicas of each of the 2 shards one writes", " journal-kubejournal-0-0 -- /kubejournal status"}, silent: []string{"WARNING"},
		},
		"everything":       {values: "preset: everything", silent: []string{"WARNING"}},
		"every shard":      {values: "{preset: everything, mode: statefulset, shards: 2}", silent: []string{"WARNING"}},
		"without a volume": {values: "persistence: {enabled: false}", notes: []string{"emptyDir"}},
		"stdout":           {values: `config: {output: {path: "-"}}`, notes: []string{"16 KiB", "logs -c kubejournal"}},
		"another port":     {values: `config: {listen: ":9090"}`, notes: []string{" 9090 "}},
		"short stdout":     {values: `config: {output: {path: "-", maxLineBytes: 16KiB}}`, silent: []string{"WARNING"}},
		"no checkpoint":    {values: `config: {checkpoint: {path: ""}}`, notes: []string{"Every start begins with a snapshot"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, notes, err := helmed(t, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("notes do not say %q:\n%s", want, notes)
				}
			}
			for _, word := range tc.silent {
				if strings.Contains(notes, word) {
					t.Errorf("notes say %q:\n%s", word, notes)
				}
			}
			for _, shard := range m.shards() {
				checkPolicy(t, shard)
				shard.checkNodes(t)
				checkRights(t, shard)
			}
			checkRun(t, m)
			if content := one[corev1.ConfigMap](t, m, "ConfigMap").Data["kubejournal.yaml"]; !strings.Contains(content, "defaults:\n  changes: true\n") {
				t.Errorf("changes are not on:\n%s", content)
			}
			if name == "no checkpoint" && !slices.Contains(m.environment(t, nodeName), "TMPDIR="+statePath) {
				t.Error("nothing can be kept while it runs: the image has no folder for that")
			}
		})
	}
}

// The chart's own rights are those that the program prints for the config that the chart writes.
func TestHelmRights(t *testing.T) {
	for name, tc := range map[string]struct{ resources, defaults, environment string }{
		"names":      {resources: "[po, deploy, StatefulSet, daemonsets.v1.apps, endpointslices.discovery.k8s.io, ev]"},
		"long":       {resources: `[{resource: events, group: events.k8s.io}, {resource: sts, group: apps, version: v1}, {resource: cm, group: ""}]`},
		"namespaces": {resources: "[{resource: secrets, namespaces: [web, db]}, {resource: jobs, namespaces: [web]}, pods]"},
		"one object": {resources: "[{resource: secrets, namespaces: [web], fieldSelector: metadata.name=login}, {resource: nodes, fieldSelector: \"metadata.name==a,spec.unschedulable=true\"}, {resource: services, fieldSelector: metadata.name!=a}]"},
		"default":    {resources: "[pods, {resource: secrets, fieldSelector: \"\"}, {resource: nodes, fieldSelector: metadata.name=b}]", defaults: "fieldSelector: metadata.name=a"},
		"custom":     {resources: "[widgets.example.com, gadgets.v1.example.com, {resource: gizmos, group: example.com, namespaces: [web]}]"},
		"group":      {resources: `[{resource: "*", group: apps}, {resource: "*", group: example.com, namespaces: [web]}]`},
		"every":      {resources: `[{resource: "*", group: "*", exclude: [events, leases.coordination.k8s.io]}]`},
		"everywhere": {resources: `[{resource: pods, group: "*"}]`},
		"own":        {resources: "[{resource: pods, namespaces: [$(POD_NAMESPACE), $(OTHER)]}]", environment: "[{name: OTHER, value: web}]"},
	} {
		t.Run(name, func(t *testing.T) {
			values := "config: {resources: " + tc.resources + ", defaults: {" + tc.defaults + "}}\n"
			if tc.environment != "" {
				values += "extraEnv: " + tc.environment
			}
			m, _, err := helmed(t, values)
			if err != nil {
				t.Fatal(err)
			}
			checkRights(t, m)
		})
	}
}

// checkRights compares what the manifests give the daemon with what the program prints for their config.
func checkRights(t *testing.T, m manifests) {
	t.Helper()
	account := m.ofKind("ServiceAccount")[0]
	printed := parse(t, ask(t, m, ".", "rbac", "--config", m.config(t), "--offline", "--namespace", account.GetNamespace(), "--service-account", account.GetName()))
	want := append(printed, account).rights(t)
	if diff := cmp.Diff(want.each(), m.rights(t).each()); diff != "" {
		t.Errorf("rights (-kubejournal rbac +manifests):\n%s", diff)
	}
}

// each writes every single right of a set, less what a wider one says.
func (r rights) each() []string {
	type right struct{ namespace, group, resource, name, verb string }
	var all []right
	for namespace, rules := range r {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						for _, verb := range rule.Verbs {
							all = append(all, right{namespace, group, resource, name, verb})
						}
					}
				}
			}
		}
	}
	is := func(wide, narrow, every string) bool { return wide == narrow || wide == every }
	implies := func(a, b right) bool {
		return is(a.namespace, b.namespace, "") && is(a.group, b.group, "*") && is(a.resource, b.resource, "*") && is(a.name, b.name, "") && a.verb == b.verb
	}
	var lines []string
	for _, one := range all {
		if !slices.ContainsFunc(all, func(other right) bool { return other != one && implies(other, one) }) {
			lines = append(lines, fmt.Sprintf("%s %s.%s/%s in %q", one.verb, one.resource, one.group, one.name, one.namespace))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func TestHelmRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"mode":            {"mode: replicaset", "mode"},
		"unknown key":     {"replica: 3", "replica"},
		"no replica":      {"{mode: statefulset, replicas: 0}", "replicas"},
		"no shard":        {"{mode: statefulset, shards: 0}", "shards"},
		"own shard":       {"{mode: statefulset, config: {shard: {index: 0, count: 2}}}", "shard"},
		"shared volume":   {"{mode: statefulset, persistence: {existingClaim: mine}}", "persistence: each replica of a statefulset has a volume of its own"},
		"no volume":       {"{mode: statefulset, persistence: {enabled: false}}", "persistence: each replica of a statefulset has a volume of its own"},
		"one replica":     {"config: {leaderElection: {leaseName: mine}}", "config.leaderElection: only the mode statefulset has replicas"},
		"unknown config":  {"config: {resuorces: [pods]}", "resuorces"},
		"no resources":    {"config: {resources: []}", "resources"},
		"short grace":     {"terminationGracePeriodSeconds: 4", "terminationGracePeriodSeconds"},
		"latest":          {"image: {tag: latest}", "tag"},
		"loopback":        {`config: {listen: "127.0.0.1:8080"}`, `config.listen: the kubelet cannot reach "127.0.0.1:8080", and would restart the pod for that; write ":8080"`},
		"loopback of v6":  {`config: {listen: "[::1]:8080"}`, "config.listen: the kubelet cannot reach"},
		"long name":       {"{mode: statefulset, fullnameOverride: " + strings.Repeat("n", 53) + "}", "set a name of at most 52"},
		"long of shards":  {"{mode: statefulset, shards: 11, fullnameOverride: " + strings.Repeat("n", 50) + "}", "set a name of at most 49"},
		"long by itself":  {"{mode: statefulset, nameOverride: " + strings.Repeat("n", 50) + "}", "fullnameOverride: the StatefulSet journal-nnn"},
		"any port":        {`config: {listen: ":0"}`, "listen"},
		"no port":         {`{config: {listen: ""}, monitoring: {podMonitor: {enabled: true}}}`, "monitoring.podMonitor.enabled: there is nothing to scrape"},
		"read-only path":  {"config: {output: {path: /journal.jsonl}}", `config.output.path: "/journal.jsonl" is on the root file system`},
		"dotted name":     {"fullnameOverride: my.journal", `fullnameOverride: "my.journal" cannot be the name of a Service; set one that begins with a letter`},
		"name of a digit": {"fullnameOverride: 1journal", "cannot be the name of a Service"},
		"nothing there":   {"monitoring: null", "missing property 'monitoring'"},
		"no ports":        {"networkPolicy: {apiServerPorts: null}", "missing property 'apiServerPorts'"},
		"no address":      {"config: {listen: null}", "missing property 'listen'"},
		"far too many":    {"{mode: statefulset, shards: 1025}", "shards"},
		"unknown name":    {"config: {resources: [gizmo]}", "config.resources[0]: \"gizmo\" is none of Kubernetes' own resources"},
		"unknown env":     {"config: {resources: [{resource: pods, namespaces: [$(WHERE)]}]}", "config.resources[0].namespaces: $(WHERE) is not known here"},
		"nameless":        {"serviceAccount: {create: false}", "serviceAccount.name"},
		"sidecar's name":  {"sidecar: {container: {name: kubejournal}}", "name"},
		"unknown preset":  {"preset: all", "preset"},
		"preset and own":  {"{preset: everything, config: {resources: [pods]}}", "preset: config.resources says what is journalled"},
		"preset per node": {"{preset: everything, mode: daemonset}", "preset: each pod of a daemonset would journal all of it"},
		"no length":       {"networkPolicy: {apiServerCIDRs: [10.96.0.1]}", "apiServerCIDRs"},
		"two-digit ports": {"networkPolicy: {apiServerPorts: [https]}", "apiServerPorts"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := helmed(t, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// The number of shards of a release that runs stays as it is: its daemons would lose what happens meanwhile.
func TestHelmShards(t *testing.T) {
	s := theServer(t)
	m, _, err := helmed(t, "{mode: statefulset, shards: 2}")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+releaseNamespace+"}}"))...)
	s.apply(t, false, m.ofKind("ConfigMap")...)
	t.Cleanup(func() { s.remove(t, m.ofKind("ConfigMap")) })
	for values, refused := range map[string]bool{
		"{mode: statefulset, shards: 2, replicas: 3}": false,
		"{mode: statefulset, shards: 3}":              true,
		"{mode: statefulset}":                         true,
		"{mode: deployment}":                          true,
	} {
		_, _, err := helmedBy(t, engine.New(s.RESTConfig()), releaseNamespace, values)
		if is := err != nil && strings.Contains(err.Error(), "shards: this release has 2"); is != refused || !refused && err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// A volume that Kubernetes would not change is refused before anything is changed, with what to do instead.
func TestHelmVolumes(t *testing.T) {
	s := theServer(t)
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+releaseNamespace+"}}"))...)
	for _, tc := range []struct {
		installed, kind string
		upgrades        map[string]string // values, and what is said of them; "" is nothing
	}{
		{"{mode: statefulset, persistence: {size: 0.5Gi}}", "StatefulSet", map[string]string{
			"{mode: statefulset, persistence: {size: 512Mi}}":                               "",
			"{mode: statefulset, replicas: 3, persistence: {size: 524288Ki}}":               "",
			"{mode: statefulset, persistence: {size: 512Mi, storageClassName: null}}":       "",
			"{mode: statefulset, persistence: {size: 1Gi}}":                                 "persistence.size: this release has 512Mi and not 1Gi; a StatefulSet keeps its volumes as they are; change the claims state-journal-kubejournal-N yourself, run kubectl -n helm delete statefulset journal-kubejournal --cascade=orphan",
			"{mode: statefulset, persistence: {size: 512M}}":                                "persistence.size: ",
			"{mode: statefulset, persistence: {size: 512Mi, storageClassName: fast}}":       `persistence.storageClassName: this release has "" and not "fast"`,
			"{mode: statefulset, persistence: {size: 512Mi, accessModes: [ReadWriteMany]}}": "persistence.accessModes: this release has [ReadWriteOnce] and not [ReadWriteMany]",
		}},
		{"{persistence: {size: 5Gi, storageClassName: slow}}", "PersistentVolumeClaim", map[string]string{
			"{persistence: {size: 5120Mi, storageClassName: slow}}":                            "",
			"{persistence: {size: 10Gi, storageClassName: slow}}":                              "", // it can grow
			"{persistence: {size: 5Gi}}":                                                       "",
			"{persistence: {size: 5G, storageClassName: slow}}":                                "persistence.size: the volume of this release has 5Gi and cannot shrink to 5G; ",
			"{persistence: {size: 5Gi, storageClassName: fast}}":                               `persistence.storageClassName: the volume of this release has "slow", which cannot change to "fast"`,
			"{persistence: {existingClaim: mine, size: 1Gi}}":                                  "",
			"{persistence: {size: 5Gi, storageClassName: slow, accessModes: [ReadWriteMany]}}": "persistence.accessModes: ",
		}},
	} {
		m, _, err := helmed(t, tc.installed)
		if err != nil {
			t.Fatal(err)
		}
		s.apply(t, false, m.ofKind(tc.kind)...)
		for values, want := range tc.upgrades {
			_, _, err := helmedBy(t, engine.New(s.RESTConfig()), releaseNamespace, values)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", values, err, want)
			}
		}
		s.remove(t, m.ofKind(tc.kind))
	}
}

// OpenShift's restricted policies take no user of ours, and any user that they give can run the image: users are left out there,
// and wherever they are null.
func TestHelmUsers(t *testing.T) {
	for values, want := range map[string]string{
		"":                "65532 65532 65532",
		"mode: daemonset": "65532 65532 -",
		"podSecurityContext: {runAsUser: 1000, fsGroup: null}":                   "1000 65532 -",
		"podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}": "- - -",
	} {
		if got := usersOf(t, values); got != want {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
	}
	for values, want := range map[string]string{
		"":                  "- - -",
		"mode: statefulset": "- - -",
		"mode: sidecar":     "- - -",
		"mode: daemonset":   "65532 65532 -",
		"podSecurityContext: {runAsUser: 1000700000, fsGroup: 1000700000}": "1000700000 - 1000700000",
	} {
		if got := usersOf(t, values, "security.openshift.io/v1"); got != want {
			t.Errorf("OpenShift, %s: %s, want %s", values, got, want)
		}
	}
}

// usersOf are the user, group and fsGroup of the pod, on a server that has these APIs too.
func usersOf(t *testing.T, values string, apis ...string) string {
	t.Helper()
	m, _, err := helmedOn(t, engine.Engine{}, releaseNamespace, values, apis...)
	if err != nil {
		t.Fatal(err)
	}
	s := m.pod(t).Spec.SecurityContext
	if s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
		t.Errorf("%s: %+v", values, s)
	}
	var all []string
	for _, id := range []*int64{s.RunAsUser, s.RunAsGroup, s.FSGroup} {
		if id == nil {
			all = append(all, "-")
			continue
		}
		all = append(all, fmt.Sprint(*id))
	}
	return strings.Join(all, " ")
}

// The API server is reached on each port that a kind of cluster is known to have it on.
func TestAPIServerPorts(t *testing.T) {
	helm, _, err := helmed(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]manifests{"helm": helm, "kustomize": mustKustomize(t, "deployment")} {
		var ports []string
		for _, rule := range one[networkingv1.NetworkPolicy](t, m, "NetworkPolicy").Spec.Egress {
			for _, p := range rule.Ports {
				ports = append(ports, p.Port.String())
			}
		}
		if diff := cmp.Diff([]string{"443", "6443", "6444", "8443", "16443"}, ports); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Text stays text, also where it looks like something else in YAML, and what is null is left out.
func TestHelmText(t *testing.T) {
	m, _, err := helmed(t, `{persistence: {storageClassName: "-", existingClaim: "123"}, priorityClassName: "1", podSecurityContext: null}`)
	if err != nil {
		t.Fatal(err)
	}
	s := m.pod(t).Spec
	if claim := s.Volumes[0].PersistentVolumeClaim.ClaimName; claim != "123" || s.PriorityClassName != "1" || s.SecurityContext.RunAsUser != nil {
		t.Errorf("claim %q, priority %q, %+v", claim, s.PriorityClassName, s.SecurityContext)
	}
	for _, mode := range []string{"deployment", "statefulset"} {
		if _, _, err := helmed(t, `{mode: `+mode+`, persistence: {storageClassName: "-"}}`); err != nil {
			t.Error(err)
		}
	}
}

// What can be turned off is gone, and what can be turned on is there.
func TestHelmOptions(t *testing.T) {
	for values, want := range map[string]string{
		"": "ConfigMap,Deployment,NetworkPolicy,PersistentVolumeClaim,PodDisruptionBudget,Service,ServiceAccount,ClusterRole,ClusterRoleBinding",
		"{networkPolicy: {enabled: false}, podDisruptionBudget: {enabled: false}, rbac: {create: false}, serviceAccount: {create: false, name: other}}": "ConfigMap,Deployment,PersistentVolumeClaim,Service",
		"{persistence: {existingClaim: mine}, config: {listen: \"\"}}":                                                                                  "ConfigMap,Deployment,NetworkPolicy,PodDisruptionBudget,ServiceAccount,ClusterRole,ClusterRoleBinding",
		"{mode: sidecar}":                "ConfigMap,Deployment,PodDisruptionBudget,Service,ServiceAccount,ClusterRole,ClusterRoleBinding,Role,RoleBinding",
		"{mode: statefulset, shards: 2}": "ConfigMap,NetworkPolicy,PodDisruptionBudget,PodDisruptionBudget,Service,ServiceAccount,StatefulSet,StatefulSet,ClusterRole,ClusterRoleBinding,Role,RoleBinding",
		"{mode: daemonset, monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}}": "ConfigMap,DaemonSet,NetworkPolicy,PodMonitor,PrometheusRule,Service,ServiceAccount,ClusterRole,ClusterRoleBinding",
	} {
		m, _, err := helmed(t, values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		var got []string
		for _, o := range m {
			got = append(got, o.GetKind())
		}
		wanted := strings.Split(want, ",")
		slices.Sort(got)
		slices.Sort(wanted)
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", values, diff)
		}
	}
}

func TestHelmLint(t *testing.T) {
	for _, mode := range []string{"deployment", "statefulset", "daemonset", "sidecar"} {
		for _, message := range lint.RunAll(chart, map[string]any{"mode": mode}, releaseNamespace).Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %v", mode, message)
			}
		}
	}
}

// The chart has copies of files that it cannot reach.
func TestHelmFiles(t *testing.T) {
	for name, from := range map[string]string{
		"builtin.txt": "internal/format/builtin/builtin.txt",
		"rules.yaml":  "deploy/monitoring/rules.yaml",
		// The resources of a preset.
		"everything.yaml": "configs/examples/everything.yaml",
	} {
		want, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(chart, "files", name)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil { //nolint:gosec // a file of the repository
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not %s: %v; run make test-deploy DEPLOY_FLAGS=-update", file, from, err)
		}
	}
}

// What the values say of the program's security counts, also where it is less than the daemon has.
func TestHelmSidecarSecurity(t *testing.T) {
	m, _, err := helmed(t, `{mode: sidecar, sidecar: {container: {name: app, image: "app:1", securityContext: {readOnlyRootFilesystem: false, capabilities: {add: [NET_BIND_SERVICE]}}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	no, want := false, corev1.SecurityContext{}
	want.AllowPrivilegeEscalation, want.ReadOnlyRootFilesystem = &no, &no
	want.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}}
	if diff := cmp.Diff(&want, m.pod(t).Spec.Containers[0].SecurityContext); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Releases of one name in two namespaces have nothing in common, whatever namespaces both journal: Helm refuses to
// install what another release owns.
func TestHelmTwice(t *testing.T) {
	const values = "config: {resources: [nodes, {resource: pods, namespaces: [web, $(POD_NAMESPACE)]}]}"
	seen := map[string]string{}
	for _, namespace := range []string{"one", "two"} {
		m, _, err := helmedBy(t, engine.Engine{}, namespace, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range m {
			id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if other, is := seen[id]; is {
				t.Errorf("%s is in the releases of %s and of %s", id, other, namespace)
			}
			seen[id] = namespace
		}
	}
}

// A list of peers that is empty is everybody in a rule of a network policy, which nobody means who writes it.
func TestHelmNobody(t *testing.T) {
	m, _, err := helmed(t, "networkPolicy: {from: []}")
	if err != nil {
		t.Fatal(err)
	}
	if got := one[networkingv1.NetworkPolicy](t, m, "NetworkPolicy").Spec; len(got.Ingress) != 0 || !slices.Contains(got.PolicyTypes, networkingv1.PolicyTypeIngress) {
		t.Errorf("lets in %v", got.Ingress)
	}
}

// A claim that is named is used.
func TestHelmExistingClaim(t *testing.T) {
	for _, mode := range []string{"deployment", "sidecar"} {
		m, _, err := helmed(t, "{mode: "+mode+", persistence: {existingClaim: mine}}")
		if err != nil {
			t.Fatal(err)
		}
		volumes := m.pod(t).Spec.Volumes
		i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "state" })
		if claim := volumes[i].PersistentVolumeClaim; claim == nil || claim.ClaimName != "mine" {
			t.Errorf("%s: the state is in %+v", mode, volumes[i].VolumeSource)
		}
	}
}

// An edit of the config makes a new pod where the daemon that runs would refuse it, and only there: a new pod is a pause.
func TestHelmRestarts(t *testing.T) {
	pod := func(values string) corev1.PodTemplateSpec {
		m, _, err := helmed(t, values)
		if err != nil {
			t.Fatal(err)
		}
		return m.pod(t)
	}
	before := pod("")
	for values, restarts := range map[string]bool{
		"config: {output: {path: /var/lib/kubejournal/other.jsonl}}":                                                         true,
		"config: {checkpoint: {path: /var/lib/kubejournal/other.db}}":                                                        true,
		"config: {log: {format: console}}":                                                                                   true,
		"config: {resources: [secrets], log: {level: debug}, output: {maxFiles: 3}, checkpoint: {interval: 2s}, cluster: a}": false,
	} {
		if differs := cmp.Diff(before, pod(values)) != ""; differs != restarts {
			t.Errorf("%s: makes a new pod: %t", values, differs)
		}
	}
	if cmp.Diff(pod("{mode: statefulset}"), pod("{mode: statefulset, config: {leaderElection: {leaseDuration: 20s}}}")) == "" {
		t.Error("other times of the leader election make no new pod")
	}
}
