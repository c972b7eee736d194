package follow

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/host/terminal"
)

var update = flag.Bool("update", false, "write testdata/screen-*.txt")

// incident makes the lines of an incident as a journal has them.
type incident struct {
	t     testing.TB
	lines []string
}

// thing is an object whose versions follow each other.
type thing struct{ group, resource, kind, namespace, name string }

var (
	checkout   = thing{"apps", "deployments", "Deployment", "shop", "checkout-api"}
	checkoutRS = thing{"apps", "replicasets", "ReplicaSet", "shop", "checkout-api-6d4cf56db6"}
	newPod     = thing{"", "pods", "Pod", "shop", "checkout-api-6d4cf56db6-x7k2p"}
	oldPod     = thing{"", "pods", "Pod", "shop", "checkout-api-7b9f8c6d54-q9wzr"}
	slice      = thing{"discovery.k8s.io", "endpointslices", "EndpointSlice", "shop", "checkout-api-5xv8n"}
	backoff    = thing{"", "events", "Event", "shop", "checkout-api-6d4cf56db6-x7k2p.187ab3c2d1e0f9a4"}
	lease      = thing{"coordination.k8s.io", "leases", "Lease", "kube-system", "kube-controller-manager"}
	settings   = thing{"", "configmaps", "ConfigMap", "shop", "checkout-api-settings"}
	password   = thing{"", "secrets", "Secret", "shop", "checkout-api-database"}
	scaler     = thing{"autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "shop", "checkout-api"}
	hooks      = thing{"admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "policy-controller.example.com"}
	knative    = thing{"serving.knative.dev", "services", "Service", "shop", "recommendations"}
	node       = thing{"", "nodes", "Node", "", "ip-10-1-42-17.eu-central-1.compute.internal"}
	apiService = thing{"apiregistration.k8s.io", "apiservices", "APIService", "", "v1beta1.metrics.k8s.io"}
)

// stream is the name of the thing's stream.
func (o thing) stream() string {
	if o.group == "" {
		return o.resource
	}
	return o.resource + "." + o.group
}

// add appends a line, at so many seconds after seven in the morning. who is MANAGER/SUBRESOURCE; members come after it.
func (in *incident) add(at float64, typ string, o thing, who, members, object string) {
	received := time.Date(2026, 11, 22, 6, 30, 0, 0, time.UTC).Add(time.Duration(at * float64(time.Second)))
	manager, subresource, _ := strings.Cut(who, "/")
	var b strings.Builder
	fmt.Fprintf(&b, `{"seq":%d,"time":%q,"type":%q,"stream":%q`, len(in.lines)+1, received.Format("2006-01-02T15:04:05.000000000Z"), typ, o.stream())
	for _, member := range [][2]string{
		{"group", o.group}, {"version", "v1"}, {"resource", o.resource}, {"kind", o.kind}, {"namespace", o.namespace}, {"name", o.name},
		{"manager", manager}, {"subresource", subresource},
	} {
		if member[1] != "" {
			fmt.Fprintf(&b, `,%q:%q`, member[0], member[1])
		}
	}
	fmt.Fprintf(&b, `,"origin":"watch"%s,"object":%s}`, members, cmp.Or(object, "{}"))
	in.lines = append(in.lines, b.String())
}

// change appends a MODIFIED line with what changed between two objects.
func (in *incident) change(at float64, o thing, who, members, prev, next string) {
	in.t.Helper()
	operations, err := changes.Append(nil, compact(in.t, prev), compact(in.t, next))
	if err != nil {
		in.t.Fatal(err)
	}
	in.add(at, "MODIFIED", o, who, members+`,"changes":`+string(operations), string(compact(in.t, next)))
}

func compact(t testing.TB, text string) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// aRollout is a rollout that fails, an outage, and what was done about it.
func aRollout(t testing.TB) []string {
	in := &incident{t: t}
	template := func(replicas int, image, annotations, status string) string {
		return fmt.Sprintf(`{"metadata":{"generation":%d,"annotations":{%s}},"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"proxy","image":"envoy:1.31"},{"name":"web","image":%q}]}}},"status":{%s}}`,
			replicas, annotations, replicas, image, status)
	}
	const image = "registry.example.com/shop/checkout-api:"
	in.change(1.2, checkout, "kubectl", "", template(3, image+"2.14.0", "", ""), template(5, image+"2.14.0", "", ""))
	in.change(1.21, checkout, "kubectl-client-side-apply", "",
		template(5, image+"2.14.0", `"kubectl.kubernetes.io/last-applied-configuration":"{}"`, ""), template(5, image+"2.14.1", `"kubectl.kubernetes.io/last-applied-configuration":"{\"a\":1}"`, ""))
	in.change(1.25, checkout, "kube-controller-manager/status", "",
		template(5, image, `"deployment.kubernetes.io/revision":"3"`, `"observedGeneration":3,"replicas":3`),
		template(5, image, `"deployment.kubernetes.io/revision":"4"`, `"observedGeneration":4,"replicas":4,"updatedReplicas":1`))
	in.add(1.3, "ADDED", checkoutRS, "kube-controller-manager", `,"generation":1`, "")
	in.add(1.32, "ADDED", newPod, "kube-controller-manager", "", "")
	in.change(1.35, newPod, "kube-scheduler/binding", "", `{"spec":{"containers":[]}}`, `{"spec":{"containers":[],"nodeName":"ip-10-1-42-17.eu-central-1.compute.internal"}}`)
	pod := func(phase, ready, reason string) string {
		return fmt.Sprintf(`{"metadata":{"name":"x"},"status":{"phase":%q,"conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":%q,"reason":%q,"message":"containers with unready status: [web]","lastTransitionTime":"%s"}],"containerStatuses":[{"name":"proxy","ready":true},{"name":"web","ready":%s}]}}`,
			phase, ready, reason, ready, strings.ToLower(ready))
	}
	in.change(3.1, newPod, "kubelet/status", "", pod("Pending", "False", "ContainersNotReady"), pod("Running", "False", "ContainersNotReady"))
	in.change(4, oldPod, "kubelet/status", "", pod("Running", "True", ""), pod("Running", "False", "ContainersNotReady"))
	in.change(4.2, oldPod, "kube-controller-manager", "", `{"metadata":{"finalizers":["example.com/drain"]}}`,
		`{"metadata":{"finalizers":["example.com/drain","foregroundDeletion"],"deletionGracePeriodSeconds":30,"deletionTimestamp":"2026-11-22T06:30:34Z"}}`)
	in.change(4.3, slice, "kube-controller-manager", "",
		`{"metadata":{"annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"2026-11-22T06:29:00Z"}},"endpoints":[{"addresses":["10.1.2.3"],"conditions":{"ready":true},"targetRef":{"name":"checkout-api-7b9f8c6d54-q9wzr"}}]}`,
		`{"metadata":{"annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"2026-11-22T06:30:04Z"}},"endpoints":[{"addresses":["10.1.2.3"],"conditions":{"ready":false},"targetRef":{"name":"checkout-api-7b9f8c6d54-q9wzr"}}]}`)
	in.add(4.5, "DELETED", oldPod, "kubelet/status", `,"generation":2`, "")
	in.add(6, "ADDED", backoff, "kubelet", `,"event":{"reason":"BackOff","message":"Back-off restarting failed container web in pod checkout-api-6d4cf56db6-x7k2p_shop","type":"Warning","count":12,"reporter":"kubelet","regarding":{"kind":"Pod","namespace":"shop","name":"checkout-api-6d4cf56db6-x7k2p"}}`, "")
	in.change(7, lease, "kube-controller-manager", "", `{"spec":{"renewTime":"2026-11-22T06:30:05.123456Z"}}`, `{"spec":{"renewTime":"2026-11-22T06:30:07.234567Z"}}`)
	in.change(8, scaler, "kube-controller-manager/status", "", `{"status":{"currentReplicas":3,"desiredReplicas":3}}`, `{"status":{"currentReplicas":5,"desiredReplicas":8}}`)
	in.change(9, settings, "kubectl-edit", "", `{"data":{"app.conf":"workers 4\nlisten 8080\n  timeout 5\nlog info\n"}}`, `{"data":{"app.conf":"workers 4\nlisten 8080\n  timeout 50\nlog info\n"}}`)
	in.add(10, "MODIFIED", password, "external-secrets", `,"changes":[{"op":"replace","path":"/metadata/resourceVersion","old":"1","value":"2"},{"op":"replace","path":"/data/password","old":"REDACTED","value":"REDACTED"}]`, "")
	in.change(11, node, "kubelet/status", "",
		`{"status":{"conditions":[{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-11-22T06:25:11Z"},{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2026-11-22T06:25:11Z"}]}}`,
		`{"status":{"conditions":[{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-11-22T06:30:11Z"},{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2026-11-22T06:30:11Z"}]}}`)
	// 30 seconds without an API server. Nothing has happened to the nodes, but to others.
	in.add(41, "GAP", thing{resource: "nodes", kind: "Node"}, "", `,"reason":"Expired","fromTime":"2026-11-22T06:30:11Z","fromResourceVersion":"48211","resourceVersion":"48302"`, "")
	in.add(41.1, "GAP", thing{group: "apps", resource: "deployments", kind: "Deployment"}, "", `,"reason":"Expired","fromTime":"2026-11-22T06:30:08Z","fromResourceVersion":"48190","resourceVersion":"48302"`, "")
	in.add(41.2, "SYNCED", thing{resource: "nodes", kind: "Node"}, "", `,"count":{"added":0,"modified":0,"deleted":0,"unchanged":42}`, "")
	in.change(41.3, checkout, "kubectl-rollout", `,"writtenAt":"2026-11-22T06:30:35Z","origin":"relist"`, template(5, image+"2.14.1", "", ""), template(5, image+"2.14.0", "", ""))
	in.add(41.4, "SYNCED", thing{group: "apps", resource: "deployments", kind: "Deployment"}, "", `,"count":{"added":0,"modified":1,"deleted":0,"unchanged":57}`, "")
	in.change(42, apiService, "kube-apiserver/status", "", `{"status":{"conditions":[{"type":"Available","status":"False","reason":"FailedDiscoveryCheck"}]}}`, `{"status":{"conditions":[{"type":"Available","status":"True","reason":"Passed"}]}}`)
	in.change(43, hooks, "policy-controller", "", `{"webhooks":[{"name":"pods.policy.example.com","failurePolicy":"Fail"}]}`, `{"webhooks":[{"name":"pods.policy.example.com","failurePolicy":"Ignore"}]}`)
	in.change(44, knative, "argocd-application-controller", "", `{"metadata":{"labels":{"app.kubernetes.io/version":"1.8.2"}}}`, `{"metadata":{"labels":{"app.kubernetes.io/version":"1.9.0"}}}`)
	return in.lines
}

// What an incident looks like on terminals of several widths, and in a pipe.
func TestScreen(t *testing.T) {
	lines := aRollout(t)
	for _, width := range []int{80, 100, 160, 0} {
		style := Style{}
		if width > 0 {
			style.Width = func() int { return width }
		}
		got := printed(t, style, lines...)
		path := filepath.Join("testdata", fmt.Sprintf("screen-%d.txt", width))
		if *update {
			write(t, path, got)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), got); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
		for line := range strings.Lines(got) {
			if n := terminal.Columns([]byte(strings.TrimSuffix(line, "\n"))); width > 0 && n > width {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

// What a question says already is in no row of a terminal, but in all of a pipe, and of a terminal where nothing is to
// be cut.
func TestSame(t *testing.T) {
	l := strings.Replace(objectLine("MODIFIED", `,"manager":"kubectl-edit","subresource":"status","generation":2`), `"origin":"watch",`, "", 1)
	width := func() int { return 100 }
	const all = "16:10:22.500  MODIFIED  pods      shop/web-0        kubectl-edit/status  generation 2\n"
	for name, tt := range map[string]struct {
		style Style
		want  string
	}{
		"nothing":   {Style{Width: width}, "16:10:22  MOD   pods shop/web-0       kubectl edit/status  generation 2\n"},
		"kind":      {Style{Width: width, Same: Same{Kind: true}}, "16:10:22  MOD   shop/web-0    kubectl edit/status  generation 2\n"},
		"namespace": {Style{Width: width, Same: Same{Namespace: "shop"}}, "16:10:22  MOD   pods web-0            kubectl edit/status  generation 2\n"},
		"another":   {Style{Width: width, Same: Same{Namespace: "sho"}}, "16:10:22  MOD   pods shop/web-0       kubectl edit/status  generation 2\n"},
		"object":    {Style{Width: width, Same: Same{Object: true}}, "16:10:22  MOD   kubectl edit/status  generation 2\n"},
		"writer":    {Style{Width: width, Same: Same{Object: true, Who: true}}, "16:10:22  MOD   generation 2\n"},
		"wide":      {Style{Width: width, Wide: true, Same: Same{Object: true, Who: true}}, all},
		"a pipe":    {Style{Same: Same{Kind: true, Namespace: "shop", Object: true, Who: true}}, all},
	} {
		if got := printed(t, tt.style, l); !strings.HasSuffix(got, "CET\n"+tt.want) || strings.HasPrefix(got, "TIME") != (tt.style.Width != nil) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
