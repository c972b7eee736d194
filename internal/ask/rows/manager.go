package rows

import (
	"slices"
	"strings"

	"kubejournal/internal/host/terminal"
)

// verbs are the commands of kubectl that write under the name kubectl-VERB.
var verbs = []string{
	"annotate", "autoscale", "cordon", "create", "debug", "drain", "edit", "expose", "label", "patch", "replace",
	"rollout", "run", "scale", "set", "taint",
}

// AppendManager appends a field manager as people know it, and the subresource that it wrote through where that tells
// something:
//
//	kubectl-client-side-apply       kubectl apply
//	kubectl-edit                    kubectl edit, and so for all of kubectl's commands
//	kubectl, through scale          kubectl scale
//	kubelet, through status         kubelet: controllers write status, and what changed says so
//	kubectl-edit, through status    kubectl edit/status
//	any other                       as it is
//
// Both are the insides of JSON strings.
func AppendManager(dst, manager, subresource []byte) []byte {
	return terminal.AppendText(dst, []byte(known(string(manager), string(subresource))))
}

// Manager returns the same for MANAGER or MANAGER/SUBRESOURCE, which may have what does not print.
func Manager(who string) string {
	if i := strings.LastIndexByte(who, '/'); i > 0 {
		return known(who[:i], who[i+1:])
	}
	return known(who, "")
}

func known(manager, subresource string) string {
	verb, kubectl := strings.CutPrefix(manager, "kubectl-")
	switch {
	case manager == "":
		return ""
	case manager == "kubectl-client-side-apply":
		manager = "kubectl apply"
	case kubectl && slices.Contains(verbs, verb):
		manager = "kubectl " + verb
	case manager == "kubectl" && subresource == "scale":
		return "kubectl scale"
	case manager != "kubectl" && subresource == "status":
		return manager
	}
	if subresource != "" {
		manager += "/" + subresource
	}
	return manager
}
