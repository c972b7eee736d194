package serve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kubejournal/internal/ask/selector"
)

const (
	metadataName      = "metadata.name"
	metadataNamespace = "metadata.namespace"
)

// selectable has the fields, beside name and namespace, by which Kubernetes' own resources can be selected.
var selectable = map[string][]string{
	"pods.": {
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
		"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName", "spec.host",
	},
	"nodes.":                  {"spec.unschedulable"},
	"replicationcontrollers.": {"status.replicas"},
	"events.": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
		"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
		"reportingComponent", "source", "type"},
	"events.events.k8s.io": {"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
		"regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController",
		"type"},
	"namespaces.": {"status.phase"},
	"secrets.":    {"type"},
	"services.":   {"spec.clusterIP", "spec.type"},
	"jobs.batch":  {"status.successful"},
	"certificatesigningrequests.certificates.k8s.io": {"spec.signerName"},
	"resourceslices.resource.k8s.io":                 {"spec.nodeName", "spec.driver"},
}

// parseFields reads a field selector for objects of a kind. The errors are those of a Kubernetes API server.
func (k *kind) parseFields(text string) (fields.Selector, error) {
	s, err := fields.ParseSelector(text)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	s, err = s.Transform(func(label, value string) (string, string, error) {
		if err := k.checkField(label); err != nil {
			return "", "", err
		}
		if label == "spec.host" {
			label = "spec.nodeName"
		}
		return k.recordedField(label), value, nil
	})
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return s, nil
}

func (k *kind) checkField(label string) error {
	name := k.Resource.Resource + "." + k.Group
	known, special := selectable[name]
	if k.Custom {
		known, special = k.selectable, true
	}
	inNamespace := label == metadataNamespace && (k.Namespaced || !special)
	switch {
	case label == metadataName || inNamespace || slices.Contains(known, label):
		return nil
	case !special:
		return fmt.Errorf("%q is not a known field selector: only %q, %q", label, metadataName, metadataNamespace)
	case name == "jobs.batch":
		return fmt.Errorf("field label %q not supported for Job", label)
	case name == "resourceslices.resource.k8s.io":
		return fmt.Errorf("field label not supported for %s/%s, Kind=ResourceSlice: %s", k.Group, k.Version, label)
	}
	return fmt.Errorf("field label not supported: %s", label)
}

// field returns the value of a field by which objects of a kind can be selected.
func (k *kind) field(object []byte, label string) string {
	if k.Custom {
		return selector.Value(object, label)
	}
	text, absent := selector.Value(object, label), ""
	switch label {
	case "spec.hostNetwork", "spec.unschedulable":
		absent = "false"
	case "status.replicas":
		absent = "0"
	case "status.successful":
		text, absent = selector.Value(object, "status.succeeded"), "0"
	case "status.podIP":
		text = selector.Value(object, "status.podIPs.0.ip")
	case "status.podIPs": // which selects nothing
		text = ""
	case "source":
		text = ""
		for _, is := range []string{
			"source.component", "deprecatedSource.component", "reportingComponent", "reportingController",
		} {
			text = cmp.Or(text, selector.Value(object, is))
		}
	}
	if text == "" || strings.EqualFold(text, "null") {
		return absent
	}
	return text
}
