package rows

import "kubejournal/internal/host/terminal"

import "testing"

// Managers are shown as people know them, and where there is no room, by the ends of their names.
func TestManager(t *testing.T) {
	for who, want := range map[string]string{
		"kubectl-client-side-apply": "kubectl apply", "kubectl-edit": "kubectl edit", "kubectl-create": "kubectl create",
		"kubectl-rollout": "kubectl rollout", "kubectl": "kubectl", "kubectl/scale": "kubectl scale", "kubectl/status": "kubectl/status",
		"kubectl-edit/status": "kubectl edit/status", "kubectl-scale": "kubectl scale", "kubectl-evil": "kubectl-evil",
		"kube-controller-manager": "kube-controller-manager", "kube-controller-manager/scale": "kube-controller-manager/scale",
		"kubelet/status": "kubelet", "alice": "alice", "": "", "a/b": "a/b",
	} {
		if got := Manager(who); got != want {
			t.Errorf("%s: %s, want %s", who, got, want)
		}
	}
	if got := string(AppendManager(nil, []byte(`kubectl\u002dedit\u001b[2J`), nil)); got != `kubectl-edit\x1b[2J` {
		t.Error(got)
	}
	for limit, want := range map[int]string{30: "kube-controller-manager", 23: "kube-controller-manager", 19: "…controller-manager", 9: "…-manager", 1: "…", 0: ""} {
		if got := string(terminal.CutStart([]byte("x kube-controller-manager"), 2, limit)); got != "x "+want {
			t.Errorf("%d columns: %q, want %q", limit, got, want)
		}
	}
	if got := string(terminal.CutStart([]byte("日本語"), 0, 4)); got != "…語" {
		t.Error(got)
	}
}
