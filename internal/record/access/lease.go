package access

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/record/discovery"
)

// namespaceFile has the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// LeaseNamespace is that of the Lease of leaderElection: the configured one, or the pod's own. The fault is a config's
// that is used outside of a pod.
func LeaseNamespace(cfg *config.Config) (string, *config.Fault) {
	content, _ := os.ReadFile(namespaceFile) // where it cannot be read, there is none
	namespace := cmp.Or(cfg.LeaderElection.LeaseNamespace, strings.TrimSpace(string(content)))
	if namespace != "" {
		return namespace, nil
	}
	fault := cfg.At(
		"leaderElection.leaseNamespace",
		"is empty, and this is not a pod that has a namespace; write in which one the Lease is",
	)
	return "", &fault
}

// warnOfLease warns of a Lease without a namespace. The daemon may run elsewhere, in a pod.
func warnOfLease(cfg *config.Config) (warnings config.Faults) {
	if cfg.LeaderElection.LeaseName == "" {
		return nil
	}
	if _, fault := LeaseNamespace(cfg); fault != nil {
		fault.Msg = "warning: " + fault.Msg
		warnings = append(warnings, *fault)
	}
	return warnings
}

// examineLease finds out whether this identity may hold the Lease, and whether its namespace exists.
func (s *Server) examineLease(ctx context.Context, cfg *config.Config, e *Examination) error {
	e.Warnings = append(e.Warnings, warnOfLease(cfg)...)
	if cfg.LeaderElection.LeaseName == "" {
		return nil
	}
	namespace, _ := LeaseNamespace(cfg)
	if namespace == "" {
		return nil // that is among the warnings
	}
	of := discovery.Right{
		Verb: "get", Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"},
		Namespace: namespace, Name: cfg.Lease(),
	}
	update, create := of, of
	update.Verb, create.Verb, create.Name = "update", "create", ""
	refusals, err := s.refusals(ctx, [][]discovery.Right{{of, update, create}})
	if err != nil {
		return err
	}
	if refusals[0] != "" {
		e.Pending = append(e.Pending, cfg.At("leaderElection.leaseName",
			fmt.Sprintf(
				"Lease %s/%s: this identity %s; grant it, see 'kubejournal rbac --help'", namespace, cfg.Lease(),
				refusals[0],
			)))
	}
	if err := s.client.Get().AbsPath("api", "v1", "namespaces", namespace).Do(ctx).Error(); apierrors.IsNotFound(err) {
		e.Pending = append(e.Pending, cfg.At("leaderElection.leaseNamespace",
			fmt.Sprintf("the server has no namespace %q; create it, or name another one", namespace)))
	}
	return nil
}
