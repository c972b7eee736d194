package restore

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// lastApplied is the annotation in which kubectl apply leaves the configuration that the user wrote.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// serverMetadata are the members of metadata that the server sets, and references to owners that are gone: the garbage
// collector deletes what only such a reference holds.
var serverMetadata = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"ownerReferences", "resourceVersion", "selfLink", "uid",
}

// controllerAnnotations are notes that controllers make for themselves.
var controllerAnnotations = []string{
	lastApplied, // kubectl apply rewrites it
	// status, in autoscaling/v1
	"autoscaling.alpha.kubernetes.io/conditions", "autoscaling.alpha.kubernetes.io/current-metrics",
	"batch.kubernetes.io/job-tracking",
	"deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas",
	"deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history",
	"deprecated.daemonset.template.generation",
	"endpoints.kubernetes.io/over-capacity",
	"k8s.ovn.org/pod-networks", "k8s.v1.cni.cncf.io/network-status", // addresses that a network has given a pod
	"kubernetes.io/service-account.uid",
	// A claim that has these and no volume counts as one that has lost it.
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
	"pv.kubernetes.io/migrated-to",
	"volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
	"volume.kubernetes.io/storage-resizer",
}

// removeServerFields removes what the server and controllers set. Defaults stay: they are what the object was, and
// applying them changes nothing.
func removeServerFields(o Object, all members) {
	metadata, spec := child(all, "metadata"), child(all, "spec")
	annotations := child(metadata, "annotations")
	var applied members // what the user has written is kept, even where the server would have chosen
	if text, ok := annotations[lastApplied].(string); ok {
		_ = json.Unmarshal([]byte(text), &applied) // a copy for kubectl alone: as if there were none
	}
	chosen := child(applied, "spec")
	bound := annotations["pv.kubernetes.io/bound-by-controller"] != nil

	remove(all, "status")
	remove(metadata, serverMetadata...)
	remove(annotations, controllerAnnotations...)
	removeNullTimes(all)
	// Finalizers stay, as with Velero: some are a user's choice (Argo CD's cascading deletion), and controllers set
	// theirs anyway. These are how the API server notes the way in which the object is being deleted.
	filter(metadata, "finalizers", func(f any) bool {
		return f != "foregroundDeletion" && f != "orphan" && f != "customresourcecleanup.apiextensions.k8s.io"
	})

	switch o.Kind {
	case "Namespace":
		remove(spec, "finalizers") // can be changed through the subresource finalize only
		removeEmpty(all, "spec")
	case "Secret":
		if all["type"] == tokenType { // the token controller fills it in
			remove(all, "data")
			remove(child(metadata, "labels"), "kubernetes.io/legacy-token-last-used",
				"kubernetes.io/legacy-token-invalid-since")
		}
	case "PersistentVolume":
		// without them it is reserved for the claim of that name
		remove(child(spec, "claimRef"), "uid", "resourceVersion")
	case "PersistentVolumeClaim":
		if bound {
			removeUnless(chosen, spec, "volumeName")
		}
	case "Service":
		removeServicePorts(chosen, spec)
	case "Pod":
		removeScheduling(chosen, spec)
		account, _ := spec["serviceAccountName"].(string)
		filterNames(spec, "imagePullSecrets", func(secret string) bool { return !isPullSecretOf(account, secret) })
		removeEmpty(spec, "imagePullSecrets")
	case "Job.batch":
		if spec["manualSelector"] != true {
			remove(spec, "selector")
			for _, m := range []members{metadata, child(child(spec, "template"), "metadata")} {
				remove(child(m, "labels"), "controller-uid", "job-name", "batch.kubernetes.io/controller-uid",
					"batch.kubernetes.io/job-name")
				removeEmpty(m, "labels")
			}
		}
	}
	removeEmpty(metadata, "annotations", "labels", "finalizers")
	removeEmpty(child(child(spec, "template"), "metadata"), "labels")
}

// removeAccountSecrets removes from a ServiceAccount the Secrets that controllers have made for it, and make again
// under other names.
func removeAccountSecrets(o Object, all members) {
	annotations := child(child(all, "metadata"), "annotations")
	made := func(secret string) bool {
		return secret == annotations[pullSecret] || isTokenOf(o.Name, secret) || isPullSecretOf(o.Name, secret)
	}
	for _, key := range []string{"secrets", "imagePullSecrets"} {
		filterNames(all, key, func(secret string) bool { return !made(secret) })
	}
	removeEmpty(all, "secrets", "imagePullSecrets")
	remove(annotations, pullSecret)
}

// pullSecret is the annotation in which OpenShift notes the pull Secret that it has made for a ServiceAccount.
const pullSecret = "openshift.io/internal-registry-pull-secret-ref"

// removeServicePorts removes the addresses and ports that the API server has allocated. None is a choice.
func removeServicePorts(chosen, spec members) {
	if spec["clusterIP"] != "None" {
		removeUnless(chosen, spec, "clusterIP", "clusterIPs")
	}
	removeUnless(chosen, spec, "healthCheckNodePort")
	nodePorts := map[string]bool{}
	for _, p := range list(chosen, "ports") {
		nodePorts[string(asJSON(asMembers(p)["nodePort"]))] = true
	}
	for _, p := range list(spec, "ports") {
		if p := asMembers(p); !nodePorts[string(asJSON(p["nodePort"]))] {
			remove(p, "nodePort")
		}
	}
}

// removeScheduling removes what the scheduler, kubectl debug and the admission plugins Priority, RuntimeClass and
// ServiceAccount have added to a pod. The plugins refuse a new pod that has another value than theirs.
func removeScheduling(chosen, spec members) {
	const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	removeUnless(chosen, spec, "nodeName")
	remove(spec, "ephemeralContainers", "overhead", "preemptionPolicy", "priority")
	tokens := map[any]bool{}
	for _, kind := range []string{"containers", "initContainers"} {
		for _, c := range list(spec, kind) {
			c := asMembers(c)
			filter(c, "volumeMounts", func(mount any) bool {
				m := asMembers(mount)
				name, _ := m["name"].(string)
				isToken := m["mountPath"] == tokenPath && generated.MatchString(name) &&
					(strings.HasPrefix(name, "kube-api-access-") || strings.Contains(name, "-token-"))
				if isToken {
					tokens[name] = true
				}
				return !isToken
			})
			removeEmpty(c, "volumeMounts")
		}
	}
	filter(spec, "volumes", func(v any) bool { return !tokens[asMembers(v)["name"]] })
	removeEmpty(spec, "volumes")
}

// removeNullTimes removes the null that older servers write for the time at which a template was created.
func removeNullTimes(value any) {
	switch value := value.(type) {
	case members:
		if at, ok := value["creationTimestamp"]; ok && at == nil {
			delete(value, "creationTimestamp")
		}
		for _, v := range value {
			removeNullTimes(v)
		}
	case []any:
		for _, v := range value {
			removeNullTimes(v)
		}
	}
}

func remove(from members, keys ...string) {
	for _, key := range keys {
		delete(from, key)
	}
}

// removeUnless removes members that the user has not chosen.
func removeUnless(chosen, from members, keys ...string) {
	for _, key := range keys {
		if !bytes.Equal(asJSON(chosen[key]), asJSON(from[key])) {
			delete(from, key)
		}
	}
}

// removeEmpty removes objects and lists in which nothing is left.
func removeEmpty(from members, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok && len(asMembers(value)) == 0 && len(list(from, key)) == 0 {
			delete(from, key)
		}
	}
}

// filter leaves those elements of a list that keep is true of.
func filter(in members, key string, keep func(any) bool) {
	if all, ok := in[key].([]any); ok {
		in[key] = slices.DeleteFunc(all, func(v any) bool { return !keep(v) })
	}
}

// filterNames is filter for references by name.
func filterNames(in members, key string, keep func(name string) bool) {
	filter(in, key, func(v any) bool {
		name, _ := asMembers(v)["name"].(string)
		return keep(name)
	})
}

// child returns a member that is an object; nil, which has no members, where it is none.
func child(of members, key string) members { return asMembers(of[key]) }

func asMembers(value any) members {
	m, _ := value.(members)
	return m
}

func list(of members, key string) []any {
	l, _ := of[key].([]any)
	return l
}

func sortedKeys(m members) []string { return slices.Sorted(maps.Keys(m)) }

func asJSON(value any) []byte {
	text, _ := json.Marshal(value) // of what was read from JSON
	return text
}
