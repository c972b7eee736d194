package rows

import (
	"fmt"
	"testing"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
)

// fields returns a line about an object.
func fields(t testing.TB, kind, resource, group, object string) *line.Fields {
	t.Helper()
	if object == "" {
		object = "{}"
	}
	text := fmt.Sprintf(`{"seq":7,"time":"2026-11-20T14:02:11Z","type":%q,"stream":%q,"group":%q,"resource":%q,"object":%s}`, kind, resource, group, resource, object)
	l := &line.Fields{}
	if err := l.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return l
}

// Whether an operator would want to see the step from one version to the next.
func TestNoise(t *testing.T) {
	pod := func(status string) string { return `{"spec":{"nodeName":"n1"},"status":{` + status + `}}` }
	state := func(state, more string) string {
		return pod(`"phase":"Running","containerStatuses":[{"name":"web","state":` + state + `,"restartCount":1` + more + `}]`)
	}
	annotated := func(annotations string) string { return `{"metadata":{"annotations":{` + annotations + `}}}` }
	conditions := func(all string) string { return `{"status":{"conditions":[` + all + `]}}` }
	const scheduled = `{"type":"PodScheduled","status":"True"}`
	for _, c := range []struct {
		name, resource, was, is string
		want                    Noise
	}{
		// What is not in a status.
		{"spec", "deployments", `{"spec":{"replicas":2},"status":{"replicas":2}}`, `{"spec":{"replicas":3},"status":{"replicas":1}}`, NoNoise},
		{"a field that begins like status", "widgets", `{"statusText":"a"}`, `{"statusText":"b"}`, NoNoise},
		{"labels", "deployments", `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"c"}}}`, NoNoise},
		{"managedFields", "pods", `{"metadata":{"resourceVersion":"1","managedFields":[{"time":"1"}]},"status":{"observedGeneration":1}}`,
			`{"metadata":{"resourceVersion":"2","managedFields":[{"time":"2"}]},"status":{"observedGeneration":2}}`, MetadataOnly},
		{"deletion", "pods", `{"metadata":{}}`, `{"metadata":{"deletionTimestamp":"2026-11-20T14:02:11Z"}}`, NoNoise},

		// Annotations.
		{"revision", "deployments", annotated(`"deployment.kubernetes.io/revision":"1","a":"b"`), annotated(`"deployment.kubernetes.io/revision":"2","a":"b"`), RevisionOnly},
		{"first revision", "deployments", `{"metadata":{},"status":{"replicas":1}}`, `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}},"status":{"replicas":2}}`, StatusOnly},
		{"revision and another", "deployments", annotated(`"deployment.kubernetes.io/revision":"1","a":"b"`), annotated(`"deployment.kubernetes.io/revision":"2","a":"c"`), NoNoise},
		{"first annotations", "deployments", `{"metadata":{}}`, annotated(`"deployment.kubernetes.io/revision":"2","a":"c"`), NoNoise},
		{"last applied", "deployments", annotated(`"kubectl.kubernetes.io/last-applied-configuration":"1"`), annotated(`"kubectl.kubernetes.io/last-applied-configuration":"2"`), RevisionOnly},
		{"trigger time", "endpoints", annotated(`"endpoints.kubernetes.io/last-change-trigger-time":"1"`), annotated(`"endpoints.kubernetes.io/last-change-trigger-time":"2"`), RevisionOnly},
		{"leader", "configmaps", annotated(`"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"a\",\"renewTime\":\"1\"}"`),
			annotated(`"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"a\",\"renewTime\":\"2\"}"`), Heartbeat},
		{"another leader", "configmaps", annotated(`"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"a\",\"renewTime\":\"1\"}"`),
			annotated(`"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"b\",\"renewTime\":\"2\"}"`), NoNoise},

		// Heartbeats.
		{"lease", "leases", `{"spec":{"holderIdentity":"a","renewTime":"1"}}`, `{"spec":{"holderIdentity":"a","renewTime":"2"}}`, Heartbeat},
		{"another holder", "leases", `{"spec":{"holderIdentity":"a","renewTime":"1"}}`, `{"spec":{"holderIdentity":"b","renewTime":"2"}}`, NoNoise},
		{"no lease", "widgets", `{"spec":{"renewTime":"1"}}`, `{"spec":{"renewTime":"2"}}`, NoNoise},
		{"node", "nodes", conditions(`{"type":"Ready","status":"True","lastHeartbeatTime":"1"}`), conditions(`{"type":"Ready","status":"True","lastHeartbeatTime":"2"}`), Heartbeat},
		{"node's images", "nodes", `{"status":{"images":[{"names":["a"]}],"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"1"}]}}`,
			`{"status":{"images":[],"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2"}]}}`, StatusOnly},
		{"node lost", "nodes", conditions(`{"type":"Ready","status":"True","lastHeartbeatTime":"1"}`), conditions(`{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2"}`), NoNoise},
		{"node under pressure", "nodes", conditions(`{"type":"MemoryPressure","status":"False"}`), conditions(`{"type":"MemoryPressure","status":"True"}`), NoNoise},

		// A rollout.
		{"counts", "deployments", `{"status":{"replicas":2,"readyReplicas":2}}`, `{"status":{"replicas":3,"readyReplicas":2}}`, StatusOnly},
		{"progress", "deployments", conditions(`{"type":"Progressing","status":"True","reason":"ReplicaSetUpdated","message":"a"}`),
			conditions(`{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"b"}`), StatusOnly},
		{"no progress", "deployments", conditions(`{"type":"Progressing","status":"True","reason":"ReplicaSetUpdated"}`),
			conditions(`{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}`), NoNoise},
		{"conditions in another order", "deployments", conditions(`{"type":"A","status":"True"},{"type":"B","status":"True","message":"x"}`),
			conditions(`{"type":"B","status":"True","message":"y"},{"type":"A","status":"True"}`), StatusOnly},
		{"a turn in another order", "deployments", conditions(`{"type":"A","status":"True"},{"type":"B","status":"True"}`),
			conditions(`{"type":"B","status":"True"},{"type":"A","status":"False"}`), NoNoise},
		{"replica failure", "replicasets", `{"status":{"replicas":1}}`, conditions(`{"type":"ReplicaFailure","status":"True","reason":"FailedCreate"}`), NoNoise},
		{"replica failure over", "replicasets", conditions(`{"type":"ReplicaFailure","status":"True"},{"type":"A","status":"True"}`), conditions(`{"type":"A","status":"True"}`), NoNoise},
		{"first conditions", "deployments", `{"status":{"replicas":1}}`, conditions(`{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"},{"type":"Progressing","status":"True"}`), StatusOnly},

		// A pod's life.
		{"scheduled", "pods", pod(`"phase":"Pending"`), pod(`"phase":"Pending","conditions":[` + scheduled + `]`), StatusOnly},
		{"unschedulable", "pods", pod(`"phase":"Pending"`), pod(`"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]`), NoNoise},
		{"still unschedulable", "pods", conditions(`{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"2 nodes"}`),
			conditions(`{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"3 nodes"}`), StatusOnly},
		{"first conditions of a pod", "pods", pod(`"phase":"Pending","conditions":[` + scheduled + `]`),
			pod(`"phase":"Pending","conditions":[{"type":"PodReadyToStartContainers","status":"False"},{"type":"Ready","status":"False","reason":"ContainersNotReady"},` + scheduled + `],"containerStatuses":[{"name":"web","state":{"waiting":{"reason":"ContainerCreating"}},"restartCount":0}]`), StatusOnly},
		{"sandbox", "pods", conditions(`{"type":"PodReadyToStartContainers","status":"False"},` + scheduled), conditions(`{"type":"PodReadyToStartContainers","status":"True"},` + scheduled), StatusOnly},
		{"running", "pods", pod(`"phase":"Pending"`), pod(`"phase":"Running"`), NoNoise},
		{"ready", "pods", conditions(`{"type":"Ready","status":"False"}`), conditions(`{"type":"Ready","status":"True"}`), NoNoise},
		{"failed", "pods", pod(`"phase":"Running"`), pod(`"phase":"Failed","reason":"Evicted"`), NoNoise},
		{"failed at once", "pods", `{"spec":{"nodeName":"n1"}}`, pod(`"phase":"Failed"`), NoNoise},
		{"evicted", "pods", conditions(scheduled), conditions(`{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"},` + scheduled), NoNoise},
		{"no image", "pods", state(`{"waiting":{"reason":"ContainerCreating"}}`, ""), state(`{"waiting":{"reason":"ErrImagePull"}}`, ""), NoNoise},
		{"still no image", "pods", state(`{"waiting":{"reason":"ErrImagePull"}}`, ""), state(`{"waiting":{"reason":"ImagePullBackOff"}}`, ""), StatusOnly},
		{"started", "pods", state(`{"waiting":{"reason":"ContainerCreating"}}`, ""), state(`{"running":{"startedAt":"1"}}`, ""), StatusOnly},
		{"out of memory", "pods", state(`{"running":{"startedAt":"1"}}`, ""), state(`{"terminated":{"reason":"OOMKilled"}}`, ""), NoNoise},
		{"done", "pods", state(`{"running":{"startedAt":"1"}}`, ""), state(`{"terminated":{"reason":"Completed"}}`, ""), StatusOnly},
		{"crash loop", "pods", state(`{"terminated":{"reason":"Error"}}`, ""), state(`{"waiting":{"reason":"CrashLoopBackOff"}}`, `,"lastState":{"terminated":{"reason":"Error"}}`), NoNoise},
		{"last state alone", "pods", state(`{"running":{}}`, ""), state(`{"running":{}}`, `,"lastState":{"terminated":{"reason":"Error"}}`), StatusOnly},
		{"restarted", "pods", pod(`"containerStatuses":[{"name":"web","restartCount":9}]`), pod(`"containerStatuses":[{"name":"web","restartCount":10}]`), NoNoise},

		// Others.
		{"job's pod failed", "jobs", `{"status":{"active":1}}`, `{"status":{"active":1,"failed":1}}`, NoNoise},
		{"job complete", "jobs", `{"status":{"active":1}}`, conditions(`{"type":"Complete","status":"True"}`), NoNoise},
		{"volume bound", "persistentvolumeclaims", `{"status":{"phase":"Pending"}}`, `{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`, NoNoise},
		{"application", "applications", `{"status":{"health":{"status":"Healthy"},"x":1}}`, `{"status":{"health":{"status":"Degraded"},"x":1}}`, NoNoise},
		{"first phase", "widgets", `{"status":{}}`, `{"status":{"phase":"New"}}`, StatusOnly},
		{"first status", "widgets", `{"spec":{}}`, `{"spec":{},"status":{"phase":"New","conditions":[{"type":"Ready","status":"Unknown"}]}}`, StatusOnly},
	} {
		operations, err := changes.Append(nil, compact(t, c.was), compact(t, c.is))
		if err != nil {
			t.Fatal(err)
		}
		group := ""
		if c.resource == "leases" {
			group = "coordination.k8s.io"
		}
		if got := NoiseOf(fields(t, "MODIFIED", c.resource, group, string(compact(t, c.is))), operations); got != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, got, c.want, operations)
		}
	}
}

// What the line alone decides.
func TestNoiseOfLine(t *testing.T) {
	const status = `[{"op":"replace","path":"/status/replicas","old":1,"value":2}]`
	for _, c := range []struct {
		kind, resource, group, operations string
		want                              Noise
	}{
		{"MODIFIED", "deployments", "apps", status, StatusOnly},
		{"MODIFIED", "deployments", "apps", "[]", MetadataOnly},
		{"MODIFIED", "deployments", "apps", "", NoNoise},
		{"MODIFIED", "deployments", "apps", `[{"path":"/status/","value":1},{"path":"/status","old":[]},{"path":"/status/1/2","value":{"a":""}}]`, StatusOnly},
		{"MODIFIED", "deployments", "apps", `[{"path":"/status/a"},{},1]`, NoNoise},
		{"MODIFIED", "deployments", "apps", `[{"path":"/metadata/annotations","value":{}}]`, NoNoise},
		{"ADDED", "deployments", "apps", "", NoNoise},
		{"ADDED", "leases", "coordination.k8s.io", "", NoNoise},
		{"DELETED", "deployments", "apps", status, NoNoise},
		{"GAP", "deployments", "apps", "", NoNoise},
		{"SYNCED", "events", "", "", NoNoise},
		{"ADDED", "events", "", "", EventObject},
		{"DELETED", "events", "events.k8s.io", "", EventObject},
		{"MODIFIED", "events", "example.com", "", NoNoise},
	} {
		if got := NoiseOf(fields(t, c.kind, c.resource, c.group, ""), []byte(c.operations)); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestHidden(t *testing.T) {
	h := Hidden{StatusOnly: 312, EventObject: 40, Heartbeat: 12, Owned: 1}
	if got := h.String(); got != "hidden: 312 status-only, 40 Events, 12 heartbeats, 1 of an owned object (--all shows them)" {
		t.Error(got)
	}
	h = Hidden{NoNoise: 3}
	if got := h.String(); got != "" {
		t.Error(got)
	}
	h[RevisionOnly]++
	if got := h.String(); got != "hidden: 1 revision-only (--all shows them)" {
		t.Error(got)
	}
}
