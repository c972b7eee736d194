package restore

import (
	"cmp"
	"slices"
	"strings"
)

// order has the kinds that come before others because those need them, and the ones that come last.
var order = []string{
	"Namespace",
	"CustomResourceDefinition.apiextensions.k8s.io",
	// what pods, claims and Ingresses name
	"PriorityClass.scheduling.k8s.io", "RuntimeClass.node.k8s.io", "IngressClass.networking.k8s.io",
	"DeviceClass.resource.k8s.io", "CSIDriver.storage.k8s.io", "StorageClass.storage.k8s.io",
	"VolumeAttributesClass.storage.k8s.io",
	"ServiceAccount", // a token without its account is deleted
	"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
	"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
	"LimitRange", // pods get their defaults from it
	"Secret", "ConfigMap",
	"PersistentVolume", "PersistentVolumeClaim",
	"NetworkPolicy.networking.k8s.io", // before there are pods to protect
	"Service",                         // pods have variables of those that are there before them
	theRest,
	"ResourceQuota", // until a controller has counted, nothing that it limits is admitted ("status unknown for quota")
	// What the API server asks about every object, and which may not answer until the rest is there.
	"APIService.apiregistration.k8s.io",
	"MutatingAdmissionPolicy.admissionregistration.k8s.io",
	"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io",
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"MutatingWebhookConfiguration.admissionregistration.k8s.io",
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io",
}

const theRest = "*"

// Sort puts objects into the order in which they can be applied. Those of one kind are in the order of their namespaces
// and names.
func Sort(objects []Object) {
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(
			cmp.Compare(rank(a.Kind), rank(b.Kind)),
			strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
		)
	})
}

func rank(kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return slices.Index(order, theRest)
}
