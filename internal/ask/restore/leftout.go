package restore

import (
	"fmt"
	"regexp"
	"strings"
)

// Report is the reason for which Events are left out.
const Report = "a report"

// momentary has the kinds whose objects describe one moment. Programs write and renew them.
var momentary = map[string]string{
	"CSINode.storage.k8s.io":                        "registered by its kubelet",
	"CSIStorageCapacity.storage.k8s.io":             "made by the CSI external-provisioner",
	"CertificateSigningRequest.certificates.k8s.io": "a request, which csrcleaner deletes within a day",
	"Event":                              Report,
	"Event.events.k8s.io":                Report,
	"IPAddress.networking.k8s.io":        "allocated by the API server for a Service",
	"Lease.coordination.k8s.io":          "renewed by its holder",
	"LeaseCandidate.coordination.k8s.io": "renewed by its candidate",
	"Node":                               "registered by its kubelet",
	"PodCertificateRequest.certificates.k8s.io": "a request of a kubelet for one pod",
	"ResourceSlice.resource.k8s.io":             "published by a DRA driver",
	"StorageVersion.internal.apiserver.k8s.io":  "published by the API servers",
	"VolumeAttachment.storage.k8s.io":           "made by the attach/detach controller",
}

const (
	byAPIServer = "made by the API server"
	byEndpoints = "made by the endpoints controller"
)

// named has objects with fixed names, by kind, namespace and name; "*" is every namespace. Those of the API server are
// in pkg/controlplane, its priority classes in pkg/apis/scheduling.
var named = map[[3]string]string{
	{"ConfigMap", "*", "kube-root-ca.crt"}: "made by the root CA " +
		"certificate publisher",
	{"ConfigMap", "*", "openshift-service-ca.crt"}: "made by OpenShift's " +
		"service CA operator",
	{"ConfigMap", "kube-system", "extension-apiserver-authentication"}:                   byAPIServer,
	{"ConfigMap", "kube-system", "kube-apiserver-legacy-service-account-token-tracking"}: byAPIServer,
	{"Service", "default", "kubernetes"}:                                                 byAPIServer,
	{"Endpoints", "default", "kubernetes"}:                                               byAPIServer,
	{"EndpointSlice.discovery.k8s.io", "default", "kubernetes"}:                          byAPIServer,
	{"ServiceCIDR.networking.k8s.io", "", "kubernetes"}:                                  byAPIServer,
	{"PriorityClass.scheduling.k8s.io", "", "system-node-critical"}:                      byAPIServer,
	{"PriorityClass.scheduling.k8s.io", "", "system-cluster-critical"}:                   byAPIServer,
}

// marks are labels and annotations by which a maker knows its own objects. Of most of these kinds users make objects
// too: Endpoints of a Service without a selector, or a FlowSchema of the API server's that somebody has taken over
// ("false").
var marks = []struct {
	kind  string // "" is every one
	in    string // labels or annotations
	key   string
	value string // "" is every one
	by    string
}{
	{"Pod", "annotations", "kubernetes.io/config.mirror", "", "a copy of a static pod, made by its kubelet"},
	{"Endpoints", "labels", "endpoints.kubernetes.io/managed-by", "endpoint-controller", byEndpoints}, // newer servers
	{"Endpoints", "labels", "service.kubernetes.io/headless", "", byEndpoints},
	{"Endpoints", "annotations", "endpoints.kubernetes.io/last-change-trigger-time", "", byEndpoints},
	{"APIService.apiregistration.k8s.io", "labels", "kube-aggregator.kubernetes.io/automanaged", "", byAPIServer},
	{"FlowSchema.flowcontrol.apiserver.k8s.io", "annotations", "apf.kubernetes.io/autoupdate-spec", "true",
		byAPIServer},
	{"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io", "annotations", "apf.kubernetes.io/autoupdate-spec",
		"true", byAPIServer},
	// What leader election used before there were Leases. The holder of that time would keep all others waiting.
	{"", "annotations", "control-plane.alpha.kubernetes.io/leader", "", "a lock, renewed by its holder"},
}

// madeAgain says who makes an object again, if its metadata shows it; "" if nobody does.
//
// An owner that is no controller has the object collected with it, no more than that (metav1.OwnerReference), so what
// it owns is given back.
func madeAgain(o Object, metadata members) string {
	for _, owner := range list(metadata, "ownerReferences") {
		if owner := asMembers(owner); owner["controller"] == true {
			return fmt.Sprintf("owned by %v %v", owner["kind"], owner["name"])
		}
	}
	if by := momentary[o.Kind]; by != "" {
		return by
	}
	for _, namespace := range []string{o.Namespace, "*"} {
		if by := named[[3]string{o.Kind, namespace, o.Name}]; by != "" {
			return by
		}
	}
	for _, m := range marks {
		value, ok := child(metadata, m.in)[m.key]
		if ok && (m.kind == "" || m.kind == o.Kind) && (m.value == "" || m.value == value) {
			return m.by
		}
	}
	// "Default roles and role bindings": at each start, unless somebody has taken it over.
	if strings.HasSuffix(o.Kind, ".rbac.authorization.k8s.io") &&
		child(metadata, "labels")["kubernetes.io/bootstrapping"] == "rbac-defaults" &&
		child(metadata, "annotations")["rbac.authorization.kubernetes.io/autoupdate"] == "true" {
		return byAPIServer
	}
	return ""
}

// unwanted says why a whole object is not for applying, "" if it is.
func unwanted(o Object, all members) string {
	metadata, spec := child(all, "metadata"), child(all, "spec")
	annotations, labels := child(metadata, "annotations"), child(metadata, "labels")
	switch o.Kind {
	case "Namespace":
		switch o.Name {
		// with the label of its name, unless a user has added to it
		case "default", "kube-node-lease", "kube-public", "kube-system":
			if len(labels) <= 1 && len(annotations) == 0 {
				return byAPIServer
			}
		}
	case "ServiceAccount":
		_, mounts := all["automountServiceAccountToken"]
		if o.Name == "default" && !mounts && all["imagePullSecrets"] == nil && len(labels)+len(annotations) == 0 {
			return "made by the service account controller"
		}
	case "Secret": // before 1.24 each ServiceAccount was given one; later ones have been asked for
		account, _ := annotations["kubernetes.io/service-account.name"].(string)
		if all["type"] == tokenType && isTokenOf(account, o.Name) {
			return "a token made by the token controller"
		}
		if account == "" { // since OpenShift 4.16
			account, _ = annotations["openshift.io/internal-registry-auth-token.service-account"].(string)
		}
		if all["type"] == "kubernetes.io/dockercfg" && isPullSecretOf(account, o.Name) {
			return "a pull secret made by OpenShift for a ServiceAccount"
		}
	case "PersistentVolume":
		if by, ok := annotations["pv.kubernetes.io/provisioned-by"]; ok &&
			spec["persistentVolumeReclaimPolicy"] == "Delete" {
			// with the data; Retain keeps that
			return fmt.Sprintf("provisioned by %v for its claim, and deleted with it", by)
		}
	// Velero leaves these out too.
	case "Pod":
		if phase := child(all, "status")["phase"]; phase == "Succeeded" || phase == "Failed" {
			return finished
		}
	case "Job.batch":
		for _, c := range list(child(all, "status"), "conditions") {
			if c := asMembers(c); c["status"] == "True" && (c["type"] == "Complete" || c["type"] == "Failed") {
				return finished
			}
		}
	}
	return ""
}

const (
	finished  = "has finished, and would run again"
	tokenType = "kubernetes.io/service-account-token"
)

var (
	// As the API server and controllers generate names.
	generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	anySuffix = regexp.MustCompile(`^[a-z0-9]{5}$`)
)

// isTokenOf reports whether the token controller gave the name to a Secret of the ServiceAccount.
func isTokenOf(account, secret string) bool {
	base := account + "-token-"
	return (generated.MatchString(secret) || len(base) > maxBase) && isNameFrom(base, secret)
}

// isPullSecretOf reports whether OpenShift gave the name to a pull Secret of the ServiceAccount.
func isPullSecretOf(account, secret string) bool {
	return account != "" && isNameFrom(account+"-dockercfg-", secret)
}

// maxBase is how long the base of a generated name may be; more is cut off.
const maxBase = 58

// isNameFrom reports whether a name was generated from a base: by five more characters.
func isNameFrom(base, name string) bool {
	rest, ok := strings.CutPrefix(name, base[:min(len(base), maxBase)])
	return ok && anySuffix.MatchString(rest)
}
