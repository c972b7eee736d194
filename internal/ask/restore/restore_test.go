package restore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/format/line"
)

// parse returns the line of an object: kind with its group, namespace/name, and further members of the line.
func parse(t *testing.T, kind, name, more, object string) *line.Fields {
	t.Helper()
	kind, group, _ := strings.Cut(kind, ".")
	namespace, name, namespaced := strings.Cut(name, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	if object != "" {
		object = `,"object":` + object
	}
	l := &line.Fields{}
	err := l.Parse(fmt.Appendf(nil, `{"seq":1,"time":"2026-11-22T01:54:11Z","type":"ADDED","id":"1","stream":"s","group":%q,"version":"v1","kind":%q,"namespace":%q,"name":%q%s%s}`,
		group, kind, namespace, name, more, object))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCleaned(t *testing.T) {
	long := strings.Repeat("long-", 12) + "x"
	const (
		owner   = `"ownerReferences":[{"kind":"Widget","name":"w","uid":"1"}]`
		token   = `{"name":"kube-api-access-x7f2b","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}`
		applied = `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"clusterIP\":\"10.0.0.7\",\"nodeName\":\"a\",\"ports\":[{\"nodePort\":30080,\"port\":80}]}}\n"}`
	)
	for _, c := range []struct{ what, kind, name, object, want string }{
		{"what the server sets", "ConfigMap", "a/b",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"a","uid":"1","resourceVersion":"2","generation":3,"creationTimestamp":"2026-11-22T01:54:11Z","deletionTimestamp":"2026-11-22T01:54:11Z","deletionGracePeriodSeconds":0,"managedFields":[],"selfLink":"/x","labels":{"uid":"kept"}},"data":{"uid":"kept"}}`,
			`{"apiVersion":"v1","data":{"uid":"kept"},"kind":"ConfigMap","metadata":{"labels":{"uid":"kept"},"name":"b","namespace":"a"}}`},
		{"an item of a list has no kind", "Deployment.apps", "a/b", `{"metadata":{"name":"b"},"spec":{"replicas":3},"status":{}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"},"spec":{"replicas":3}}`},
		{"numbers and characters as they are", "Widget.example.com", "b", `{"kind":"Widget","metadata":{},"big":9007199254740993,"small":1.50e-3,"text":"\u003c& é\u0001"}`,
			`{"apiVersion":"example.com/v1","big":9007199254740993,"kind":"Widget","metadata":{},"small":1.50e-3,"text":"<& é\u0001"}`},
		{"a spec that is empty", "Widget.example.com", "b", `{"kind":"Widget","metadata":{},"spec":{},"status":{"a":1}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{},"spec":{}}`},
		{"a spec that is no object", "Widget.example.com", "b", `{"kind":"Widget","metadata":{},"spec":"text"}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{},"spec":"text"}`},
		{"an owner that is no controller", "ConfigMap", "a/b", `{"kind":"ConfigMap","metadata":{"name":"b",` + owner + `}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`},
		{"finalizers", "ConfigMap", "a/b", `{"kind":"ConfigMap","metadata":{"finalizers":["foregroundDeletion","example.com/keep","orphan"]}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"finalizers":["example.com/keep"]}}`},
		{"finalizers of a deletion", "ConfigMap", "a/b", `{"kind":"ConfigMap","metadata":{"finalizers":["orphan"]}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`},
		{"annotations", "Deployment.apps", "a/b",
			`{"kind":"Deployment","metadata":{"annotations":{"deployment.kubernetes.io/revision":"3","kubernetes.io/change-cause":"x"}},"spec":{"template":{"metadata":{"creationTimestamp":null,"annotations":{"kubectl.kubernetes.io/restartedAt":"x"}}}}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"kubernetes.io/change-cause":"x"}},"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"x"}}}}}`},
		{"Namespace", "Namespace", "a", `{"kind":"Namespace","metadata":{"name":"a","labels":{"kubernetes.io/metadata.name":"a"}},"spec":{"finalizers":["kubernetes"]}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"a"},"name":"a"}}`},
		{"Namespace that is being deleted", "Namespace", "a", `{"kind":"Namespace","metadata":{"name":"a","deletionTimestamp":"2026-11-22T01:54:11Z","ownerReferences":[]},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating","conditions":[]}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`},
		{"CustomResourceDefinition", "CustomResourceDefinition.apiextensions.k8s.io", "bs.example.com",
			`{"kind":"CustomResourceDefinition","metadata":{"name":"bs.example.com","generation":1,"finalizers":["customresourcecleanup.apiextensions.k8s.io"]},"spec":{"conversion":{"strategy":"None"},"versions":[{"name":"v1","schema":{"properties":{"status":{"type":"object"}}},"subresources":{"status":{}}}]},"status":{"storedVersions":["v1"],"acceptedNames":{}}}`,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bs.example.com"},"spec":{"conversion":{"strategy":"None"},"versions":[{"name":"v1","schema":{"properties":{"status":{"type":"object"}}},"subresources":{"status":{}}}]}}`},
		{"StatefulSet, whose claims keep what kubectl would send again", "StatefulSet.apps", "a/b",
			`{"kind":"StatefulSet","metadata":{"generation":2},"spec":{"revisionHistoryLimit":10,"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"data","creationTimestamp":null},"spec":{"accessModes":["ReadWriteOnce"]},"status":{"phase":"Pending"}}]},"status":{"collisionCount":0}}`,
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{},"spec":{"revisionHistoryLimit":10,"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"]},"status":{"phase":"Pending"}}]}}`},
		{"webhooks keep what they trust", "ValidatingWebhookConfiguration.admissionregistration.k8s.io", "b",
			`{"kind":"ValidatingWebhookConfiguration","metadata":{"generation":3},"webhooks":[{"name":"a.b.c","clientConfig":{"caBundle":"Y2E=","service":{"name":"x"}}}]}`,
			`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{},"webhooks":[{"clientConfig":{"caBundle":"Y2E=","service":{"name":"x"}},"name":"a.b.c"}]}`},
		{"Endpoints of a Service without a selector", "Endpoints", "a/b", `{"kind":"Endpoints","metadata":{},"subsets":[{"addresses":[{"ip":"10.1.1.1"}]}]}`,
			`{"apiVersion":"v1","kind":"Endpoints","metadata":{},"subsets":[{"addresses":[{"ip":"10.1.1.1"}]}]}`},
		{"an owner that only blocks", "Widget.example.com", "a/b", `{"kind":"Widget","metadata":{"ownerReferences":[{"kind":"Gadget","name":"g","uid":"1","controller":false,"blockOwnerDeletion":true}]}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`},
		{"a namespace of the system with a user's label", "Namespace", "default", `{"kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"default","x":"y"}}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"default","x":"y"}}}`},
		{"ServiceAccount", "ServiceAccount", "a/web", `{"kind":"ServiceAccount","metadata":{},"secrets":[{"name":"web-token-x7f2b"},{"name":"web-token"}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{},"secrets":[{"name":"web-token"}]}`},
		{"default account of a user", "ServiceAccount", "a/default", `{"kind":"ServiceAccount","metadata":{},"secrets":[{"name":"default-token-x7f2b"}],"imagePullSecrets":[{"name":"r"}]}`,
			`{"apiVersion":"v1","imagePullSecrets":[{"name":"r"}],"kind":"ServiceAccount","metadata":{}}`},
		{"account of OpenShift", "ServiceAccount", "a/web",
			`{"kind":"ServiceAccount","metadata":{"name":"web","annotations":{"openshift.io/internal-registry-pull-secret-ref":"web-dockercfg-abcde"}},"secrets":[{"name":"web-dockercfg-abcde"},{"name":"web-token-x7f2b"},{"name":"mine"}],"imagePullSecrets":[{"name":"web-dockercfg-abcde"},{"name":"web-dockercfg"},{"name":"other-dockercfg-abcde"}]}`,
			`{"apiVersion":"v1","imagePullSecrets":[{"name":"web-dockercfg"},{"name":"other-dockercfg-abcde"}],"kind":"ServiceAccount","metadata":{"name":"web"},"secrets":[{"name":"mine"}]}`},
		{"account of OpenShift with nothing else", "ServiceAccount", "a/web",
			`{"kind":"ServiceAccount","metadata":{},"secrets":[{"name":"web-dockercfg-x7f2b"}],"imagePullSecrets":[{"name":"web-dockercfg-x7f2b"}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{}}`},
		{"account of a name that is cut off", "ServiceAccount", "a/" + long,
			`{"kind":"ServiceAccount","metadata":{},"secrets":[{"name":"` + long[:58] +
				`x7f2b"}],"imagePullSecrets":[{"name":"` + long[:58] + `4zq5w"}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{}}`},
		{"account with a pull secret of another name", "ServiceAccount", "a/web",
			`{"kind":"ServiceAccount","metadata":{"annotations":{"openshift.io/internal-registry-pull-secret-ref":"x","y":"z"}},"imagePullSecrets":[{"name":"x"}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"annotations":{"y":"z"}}}`},
		{"pod of OpenShift", "Pod", "a/b",
			`{"kind":"Pod","metadata":{"annotations":{"k8s.ovn.org/pod-networks":"{}","x":"y"}},"spec":{"serviceAccountName":"web","imagePullSecrets":[{"name":"web-dockercfg-x7f2b"},{"name":"mine"}]}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"x":"y"}},"spec":{"imagePullSecrets":[{"name":"mine"}],"serviceAccountName":"web"}}`},
		{"a token that was asked for", "Secret", "a/web", `{"kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"annotations":{"kubernetes.io/service-account.name":"web","kubernetes.io/service-account.uid":"1"}},"data":{"token":"REDACTED"}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"web"}},"type":"kubernetes.io/service-account-token"}`},
		{"Service", "Service", "a/b", `{"kind":"Service","metadata":{},"spec":{"clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7"],"healthCheckNodePort":30001,"ports":[{"nodePort":30080,"port":80}]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{},"spec":{"ports":[{"port":80}]}}`},
		{"headless Service", "Service", "a/b", `{"kind":"Service","metadata":{},"spec":{"clusterIP":"None","clusterIPs":["None"]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{},"spec":{"clusterIP":"None","clusterIPs":["None"]}}`},
		{"Service with ports of the user's", "Service", "a/b",
			`{"kind":"Service","metadata":{` + applied + `},"spec":{"clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7"],"ports":[{"nodePort":30080,"port":80},{"nodePort":30081,"port":81}]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{},"spec":{"clusterIP":"10.0.0.7","ports":[{"nodePort":30080,"port":80},{"port":81}]}}`},
		{"a Service of another group", "Service.example.com", "a/b", `{"kind":"Service","metadata":{},"spec":{"clusterIP":"10.0.0.7"}}`,
			`{"apiVersion":"example.com/v1","kind":"Service","metadata":{},"spec":{"clusterIP":"10.0.0.7"}}`},
		{"Pod", "Pod", "a/b",
			`{"kind":"Pod","metadata":{},"spec":{"nodeName":"a","priority":0,"preemptionPolicy":"Never","overhead":{},"ephemeralContainers":[],"containers":[{"volumeMounts":[{"name":"x","mountPath":"/x"},` + token + `]}],"initContainers":[{"volumeMounts":[` + token + `]}],"volumes":[{"name":"x"},{"name":"kube-api-access-x7f2b"}]},"status":{"phase":"Running"}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"containers":[{"volumeMounts":[{"mountPath":"/x","name":"x"}]}],"initContainers":[{}],"volumes":[{"name":"x"}]}}`},
		{"Pod on a node of the user's", "Pod", "a/b", `{"kind":"Pod","metadata":{` + applied + `},"spec":{"nodeName":"a","containers":[{}],"volumes":[]}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"containers":[{}],"nodeName":"a"}}`},
		{"Job", "Job.batch", "a/b", `{"kind":"Job","metadata":{"labels":{"controller-uid":"1","job-name":"b","x":"y"}},"spec":{"manualSelector":false,"selector":{},"template":{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":"1","batch.kubernetes.io/job-name":"b"}}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"x":"y"}},"spec":{"manualSelector":false,"template":{"metadata":{}}}}`},
		{"Job with a selector of the user's", "Job.batch", "a/b", `{"kind":"Job","metadata":{"labels":{"job-name":"b"}},"spec":{"manualSelector":true,"selector":{"x":"y"}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"job-name":"b"}},"spec":{"manualSelector":true,"selector":{"x":"y"}}}`},
		{"bound claim", "PersistentVolumeClaim", "a/b", `{"kind":"PersistentVolumeClaim","metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes","volume.kubernetes.io/selected-node":"n"}},"spec":{"volumeName":"v","volumeMode":"Block"}}`,
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{},"spec":{"volumeMode":"Block"}}`},
		{"claim that the user has bound", "PersistentVolumeClaim", "a/b", `{"kind":"PersistentVolumeClaim","metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"v"}}`,
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{},"spec":{"volumeName":"v"}}`},
		{"volume that outlives its claim", "PersistentVolume", "b", `{"kind":"PersistentVolume","metadata":{"annotations":{"pv.kubernetes.io/provisioned-by":"p","pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"a","name":"b","uid":"1","resourceVersion":"2"}}}`,
			`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"annotations":{"pv.kubernetes.io/provisioned-by":"p"}},"spec":{"claimRef":{"name":"b","namespace":"a"},"persistentVolumeReclaimPolicy":"Retain"}}`},
		{"a user's role", "ClusterRole.rbac.authorization.k8s.io", "b", `{"kind":"ClusterRole","metadata":{"labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}},"rules":null}`,
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}},"rules":null}`},
		{"members of unexpected types", "Service", "a/b", `{"kind":"Service","metadata":[],"spec":{"ports":"x"}}`, `{"apiVersion":"v1","kind":"Service","metadata":[],"spec":{"ports":"x"}}`},
	} {
		t.Run(c.what, func(t *testing.T) {
			o, v := Clean(parse(t, c.kind, c.name, "", c.object))
			if diff := cmp.Diff(Verdict{}, v); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.want, string(o.JSON)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again, v := Clean(parse(t, c.kind, c.name, "", string(o.JSON))); v.Outcome != Cleaned || string(again.JSON) != string(o.JSON) && !strings.Contains(c.what, "user") {
				t.Errorf("cleaned again: %v %s", v, again.JSON)
			}
		})
	}
}

func TestLeftOut(t *testing.T) {
	annotated := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value) }
	labelled := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value) }
	for _, c := range []struct{ kind, name, object, reason string }{
		{"Pod", "a/b", `{"metadata":{"ownerReferences":[{"kind":"X","name":"x"},{"kind":"ReplicaSet","name":"web-1","controller":true}]}}`, "owned by ReplicaSet web-1"},
		{"Secret", "a/b", `{"kind":"Secret","metadata":{"ownerReferences":[{"kind":"Widget","name":"w","controller":true}]},"data":{"x":"REDACTED"}}`, "owned by Widget w"},
		{"Pod", "a/b", annotated("kubernetes.io/config.mirror", "1"), "static pod"},
		{"Pod", "a/b", `{"kind":"Pod","metadata":{},"status":{"phase":"Succeeded"}}`, "has finished"},
		{"Job.batch", "a/b", `{"kind":"Job","metadata":{},"status":{"conditions":[{"type":"Suspended","status":"False"},{"type":"Complete","status":"True"}]}}`, "has finished"},
		{"Event.events.k8s.io", "a/b", `{"metadata":{}}`, "report"},
		{"Lease.coordination.k8s.io", "a/b", "", "renewed"}, // even without an object
		{"Node", "a", `{"kind":"Node","metadata":{},"spec":{"podCIDR":"10.0.0.0/24"}}`, "registered by its kubelet"},
		{"EndpointSlice.discovery.k8s.io", "a/b", `{"metadata":{"ownerReferences":[{"kind":"Service","name":"web","controller":true}]}}`, "owned by Service web"},
		{"ControllerRevision.apps", "a/b", `{"metadata":{"ownerReferences":[{"kind":"StatefulSet","name":"db","controller":true}]}}`, "owned by StatefulSet db"},
		{"Job.batch", "a/b", `{"metadata":{"ownerReferences":[{"kind":"CronJob","name":"nightly","controller":true}]}}`, "owned by CronJob nightly"},
		{"ConfigMap", "any/kube-root-ca.crt", `{"metadata":{}}`, "root CA"},
		{"Service", "default/kubernetes", `{"metadata":{}}`, "API server"},
		{"Endpoints", "a/b", labelled("endpoints.kubernetes.io/managed-by", "endpoint-controller"), "endpoints controller"},
		{"Endpoints", "a/b", annotated("endpoints.kubernetes.io/last-change-trigger-time", "x"), "endpoints controller"},
		{"ConfigMap", "a/b", annotated("control-plane.alpha.kubernetes.io/leader", "{}"), "lock"},
		{"APIService.apiregistration.k8s.io", "v1.", labelled("kube-aggregator.kubernetes.io/automanaged", "onstart"), "API server"},
		{"FlowSchema.flowcontrol.apiserver.k8s.io", "b", annotated("apf.kubernetes.io/autoupdate-spec", "true"), "API server"},
		{"ClusterRole.rbac.authorization.k8s.io", "admin", `{"metadata":{"labels":{"kubernetes.io/bootstrapping":"rbac-defaults"},"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"true"}}}`, "API server"},
		{"ServiceAccount", "a/default", `{"kind":"ServiceAccount","metadata":{},"secrets":[{"name":"default-token-x7f2b"}]}`, "service account controller"},
		{
			"ServiceAccount", "a/default",
			`{"kind":"ServiceAccount","metadata":{"annotations":{"openshift.io/internal-registry-pull-secret-ref":"default-dockercfg-x7f2b"}},"secrets":[{"name":"default-dockercfg-x7f2b"}],"imagePullSecrets":[{"name":"default-dockercfg-x7f2b"}]}`,
			"service account controller",
		},
		{
			"Secret", "a/web-dockercfg-x7f2b",
			`{"kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"web","openshift.io/token-secret.value":"REDACTED"}},"type":"kubernetes.io/dockercfg","data":{".dockercfg":"REDACTED"}}`,
			"made by OpenShift",
		},
		{
			"Secret", "a/web-dockercfg-x7f2b",
			`{"kind":"Secret","metadata":{"annotations":{"openshift.io/internal-registry-auth-token.service-account":"web"}},"type":"kubernetes.io/dockercfg","data":{".dockercfg":"REDACTED"}}`,
			"made by OpenShift",
		},
		{"ConfigMap", "any/openshift-service-ca.crt", `{"metadata":{}}`, "service CA"},
		{"Namespace", "kube-system", `{"kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"kube-system"}},"spec":{}}`, "API server"},
		{"Secret", "a/web-token-x7f2b", `{"kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"web"}},"type":"kubernetes.io/service-account-token"}`, "token controller"},
		{"PersistentVolume", "b", `{"kind":"PersistentVolume","metadata":{"annotations":{"pv.kubernetes.io/provisioned-by":"csi"}},"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, "provisioned by csi"},
	} {
		t.Run(c.kind+" "+c.name, func(t *testing.T) {
			o, v := Clean(parse(t, c.kind, c.name, "", c.object))
			if v.Outcome != LeftOut || !strings.Contains(v.Reason, c.reason) || o.JSON != nil {
				t.Errorf("%+v, %s", v, o.JSON)
			}
		})
	}
	for _, c := range []struct{ kind, name, object string }{ // as before, but users have made these
		{"Pod", "a/b", `{"kind":"Pod","metadata":{},"status":{"phase":"Running"}}`},
		{"Job.batch", "a/b", `{"kind":"Job","metadata":{},"status":{"conditions":[{"type":"Complete","status":"False"}]}}`},
		{"ConfigMap", "a/kubernetes", `{"kind":"ConfigMap","metadata":{}}`},
		{"Service", "a/kubernetes", `{"kind":"Service","metadata":{}}`},
		{"Service.example.com", "default/kubernetes", `{"kind":"Service","metadata":{}}`},
		{"Endpoints", "a/b", `{"kind":"Endpoints","metadata":{"labels":{"endpoints.kubernetes.io/managed-by":"me"}}}`},
		{"FlowSchema.flowcontrol.apiserver.k8s.io", "b", `{"kind":"FlowSchema","metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}}}`},
		{"ServiceAccount", "a/default", `{"kind":"ServiceAccount","metadata":{},"automountServiceAccountToken":false}`},
		{"Secret", "a/web-token", `{"kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"web"}},"type":"kubernetes.io/service-account-token"}`},
	} {
		if _, v := Clean(parse(t, c.kind, c.name, "", c.object)); v.Outcome != Cleaned {
			t.Errorf("%s %s: %+v", c.kind, c.object, v)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		what, more, object, reason string
		fields                     []string
	}{
		{"redacted values", "", `{"kind":"Secret","metadata":{},"data":{"z":"REDACTED","a":"REDACTED","b":"cA=="}}`, "redacted: data.a, data.z", []string{"data.a", "data.z"}},
		{"redacted list and odd keys", "", `{"kind":"X","metadata":{"annotations":{"a.b/c":"REDACTED"}},"spec":{"containers":[{"env":"REDACTED"}]},"":"REDACTED"}`,
			`redacted: [""], metadata.annotations["a.b/c"], spec.containers[0].env`, []string{`[""]`, `metadata.annotations["a.b/c"]`, "spec.containers[0].env"}},
		{"truncated", `,"truncated":true`, `{"metadata":{"name":"b"}}`, "truncated", nil},
		{"unusable", `,"truncated":true,"truncatedReason":"ObjectTooLarge"`, "", "truncated: ObjectTooLarge", nil},
		{"payload: none", "", "", "no object", nil},
		{"payload: metadata", "", `{"metadata":{"name":"b","creationTimestamp":"2026-11-22T01:54:11Z"}}`, "only the object's metadata", nil},
		{"deleted in a gap", `,"finalStateKnown":false`, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`, "only the object's metadata", nil},
		{"not JSON", "", `{"kind":"X","metadata":{"a":tru}}`, "not valid JSON", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			o, v := Clean(parse(t, "Secret", "a/b", c.more, c.object))
			if v.Outcome != Refused || !strings.Contains(v.Reason, c.reason) || o.JSON != nil {
				t.Errorf("%+v, %s", v, o.JSON)
			}
			if diff := cmp.Diff(c.fields, v.Fields); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, v := Clean(parse(t, "Secret", "a/b", "", `{"kind":"Secret","metadata":{},"data":{"x":"REDACTED "},"status":"REDACTED"}`)); v.Outcome != Cleaned {
		t.Errorf("what is redacted is removed, and it is %+v", v)
	}
	if _, v := Clean(parse(t, "Secret", "a/b", `,"finalStateKnown":false`, `{"kind":"Secret","metadata":{"creationTimestamp":"2026-11-22T01:54:11Z"}}`)); v.Outcome != Cleaned {
		t.Errorf("its last state is known, and it is %+v", v)
	}
}

func TestSort(t *testing.T) {
	want := []Object{
		{Kind: "Namespace", Name: "a"}, {Kind: "Namespace", Name: "b"},
		{Kind: "CustomResourceDefinition.apiextensions.k8s.io", Name: "a"},
		{Kind: "ServiceAccount", Namespace: "a", Name: "x"},
		{Kind: "Secret", Namespace: "a", Name: "x"}, {Kind: "Secret", Namespace: "b", Name: "a"},
		{Kind: "PersistentVolumeClaim", Namespace: "a", Name: "x"},
		{Kind: "Service", Namespace: "a", Name: "x"},
		{Kind: "Deployment.apps", Namespace: "a", Name: "x"},
		{Kind: "Namespace.example.com", Namespace: "a", Name: "x"},
		{Kind: "Pod", Namespace: "a", Name: "x"},
		{Kind: "ResourceQuota", Namespace: "a", Name: "x"},
		{Kind: "ValidatingWebhookConfiguration.admissionregistration.k8s.io", Name: "x"},
	}
	got := slices.Clone(want)
	for range 20 {
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// What is given back can be read as YAML too, whatever is in a string.
func TestYAML(t *testing.T) {
	for r := rune(0); r <= 0xffff; r += 256 {
		var text []rune
		for i := r; i < r+256; i++ {
			if utf8.ValidRune(i) {
				text = append(text, i, 'a', i, ' ')
			}
		}
		want := map[string]any{"text": string(text)}
		object, err := encode(want)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(object, &got); err != nil {
			t.Fatalf("%q: %v", object, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// TestServerSide has objects of which kubectl apply cannot keep a copy in an annotation, by what kubectl itself would
// write.
func TestServerSide(t *testing.T) {
	copyOf := func(o Object) int { // what kubectl adds, name and value
		var all map[string]any
		if err := json.Unmarshal(o.JSON, &all); err != nil {
			t.Fatal(err)
		}
		metadata := all["metadata"].(map[string]any)
		annotations, size := map[string]any{}, len("kubectl.kubernetes.io/last-applied-configuration")
		if has, ok := metadata["annotations"].(map[string]any); ok {
			annotations = has
		}
		metadata["annotations"] = annotations
		for key, value := range annotations {
			size += len(key) + len(value.(string))
		}
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(all); err != nil {
			t.Fatal(err)
		}
		return size + b.Len()
	}
	for _, object := range []string{
		`{"kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"%s"}}`,
		`{"kind":"ConfigMap","metadata":{"name":"b","annotations":{"own":"%s"}}}`,
		`{"metadata":{"name":"b","annotations":{"own":"y"}},"data":{"x":"<<<&&&%s"}}`,
	} {
		clean := func(n int) Object {
			o, v := Clean(parse(t, "ConfigMap", "a/b", "", fmt.Sprintf(object, strings.Repeat("x", n))))
			if v.Outcome != Cleaned {
				t.Fatal(v)
			}
			return o
		}
		none := copyOf(clean(0))
		most := (262144 - none) / (copyOf(clean(1)) - none) // bytes of which there is room for a copy
		for n := most - 2; n <= most+2; n++ {
			if o := clean(n); o.ServerSide != (n > most) || copyOf(o) > 262144 != (n > most) {
				t.Errorf("%s with %d bytes, a copy of %d: %t", object, n, copyOf(o), o.ServerSide)
			}
		}
	}
	o, _ := Clean(parse(t, "ConfigMap", "a/b", "",
		`{"kind":"ConfigMap","metadata":{},"data":{"x":"`+strings.Repeat("<", 60_000)+`"}}`))
	if !o.ServerSide || copyOf(o) <= 262144 {
		t.Errorf("60,000 bytes that are escaped: %t, a copy of %d", o.ServerSide, copyOf(o))
	}
}
