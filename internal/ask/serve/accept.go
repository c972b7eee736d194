package serve

import (
	"net/http"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const jsonType = "application/json"

// form is what a client wants an answer as: the zero form is the objects themselves.
type form struct{ kind, group, version string }

func (f form) apiVersion() string {
	return schema.GroupVersion{Group: f.group, Version: f.version}.String()
}

// The kinds into which objects are made.
const (
	asTable       = "Table"
	asPartial     = "PartialObjectMetadata"
	asPartialList = "PartialObjectMetadataList"
)

// ofObjects reports whether objects can be answered in a form.
func ofObjects(f form) bool {
	return f == form{} || f.group == metav1.GroupName && (f.version == "v1" || f.version == "v1beta1") &&
		(f.kind == asTable || f.kind == asPartial || f.kind == asPartialList)
}

// negotiate returns the first form of JSON that a client accepts and allowed has. Clients ask for protobuf first.
func negotiate(header string, allowed func(form) bool) (form, error) {
	if header == "" {
		return form{}, nil
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		if clause.Type != "application" && clause.Type != "*" || clause.SubType != "json" && clause.SubType != "*" {
			continue
		}
		f := form{kind: clause.Params["as"], group: clause.Params["g"], version: clause.Params["v"]}
		if stream := clause.Params["stream"]; (stream == "" || stream == "watch") && clause.Params["sv"] == "" &&
			allowed(f) {
			return f, nil
		}
	}
	return form{}, failed(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: %s", jsonType)
}

// isPretty reports whether JSON is to be indented, as a Kubernetes API server has it: where that is asked for, and for
// people's tools.
func isPretty(r *http.Request) bool {
	if pretty := r.URL.Query().Get("pretty"); pretty != "" {
		return pretty == "1" || strings.EqualFold(pretty, "true")
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") ||
		strings.HasPrefix(agent, "Mozilla/5.0")
}
