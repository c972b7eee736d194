package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
	"kubejournal/internal/rbac"
)

// Examination is what a config results in on a server.
type Examination struct {
	Rows     []Row
	Streams  int
	Faults   config.Faults // only the user can mend
	Pending  config.Faults // would wait for the server
	Warnings config.Faults
}

// Row is one stream, or an entry without any.
type Row struct{ Entry, Resource, Stream, Version, State string }

// Examine resolves every entry and asks for the rights that its streams need.
func (s *Server) Examine(ctx context.Context, cfg *config.Config) (*Examination, error) {
	e := new(Examination)
	all := s.ResolveAll(cfg.Resources)
	var asked [][]discovery.Right
	for _, resolved := range all {
		for _, st := range resolved.Streams {
			asked = append(asked, st.Rights())
		}
	}
	e.Streams = len(asked)
	kubeSystem := discovery.Right{Verb: "get", Name: "kube-system", Namespace: "kube-system"}
	kubeSystem.Resource.Resource = "namespaces"
	refusals, err := s.refusals(ctx, append(asked, []discovery.Right{kubeSystem}))
	if err != nil {
		return nil, err
	}
	for i, resolved := range all {
		entry := cfg.Resources[i]
		for _, st := range resolved.Streams {
			state, err := s.examineStream(ctx, e, cfg, entry, st, refusals[0])
			if err != nil {
				return nil, err
			}
			refusals = refusals[1:]
			e.Rows = append(e.Rows, Row{entry.Entry, rbac.EntryName(entry), st.Name(), st.GVR.Version, state})
		}
		e.addUnresolved(cfg, entry, resolved.Err)
	}
	if refusal := refusals[0]; refusal != "" {
		e.Warnings = append(e.Warnings, config.Fault{File: "kubejournal: warning",
			Msg: "this identity " + refusal + " the namespace kube-system: run cannot tell whether a checkpoint belongs to the cluster; grant it, see 'kubejournal rbac --help'"})
	}
	warnUnknown := func(name, entry, field, verb string) {
		if _, known := s.Fits(name, schema.GroupResource{}); !known {
			e.Warnings = append(e.Warnings, cfg.Fault(entry, field,
				fmt.Sprintf("warning: the server has no resource %q; nothing of that name is there to be %s now", name, verb)))
		}
	}
	for _, entry := range cfg.Resources {
		for i, name := range entry.Exclude {
			warnUnknown(name, entry.Entry, fmt.Sprintf("exclude[%d]", i), "excluded")
		}
	}
	for _, rule := range cfg.Redact {
		warnUnknown(rule.Resource, rule.Entry, "resource", "redacted")
	}
	return e, nil
}

// examineStream returns the state of a stream that this identity is refused, or not where refusal is "".
func (s *Server) examineStream(ctx context.Context, e *Examination, cfg *config.Config, entry config.Resource, st discovery.Stream, refusal string) (state string, err error) {
	if refusal != "" {
		field := "resource"
		if len(entry.Namespaces) > 0 {
			field = "namespaces"
		}
		e.Pending = append(e.Pending, cfg.Fault(entry.Entry, field,
			fmt.Sprintf("%s: this identity %s; grant it, see 'kubejournal rbac --help'", st.Name(), refusal)))
		return "pending: " + refusal, nil
	}
	if st.FieldSelector == "" {
		return "ok", nil
	}
	answer, err := s.selects(ctx, st)
	if answer == "" {
		return "ok", err
	}
	fault := cfg.Fault(entry.Entry, "fieldSelector", fmt.Sprintf("the server does not select %s by %q: %s; take a field that it knows, or 'filter'",
		st.GVR.GroupResource(), st.FieldSelector, answer))
	if !slices.Contains(e.Faults, fault) { // an entry has a stream for each of its namespaces
		e.Faults = append(e.Faults, fault)
	}
	return "config fault", nil
}

// selects asks the server to select by a stream's field selector: each resource has fields of its own for that, which
// discovery does not name. The answer is why it does not; "" where it does.
func (s *Server) selects(ctx context.Context, st discovery.Stream) (answer string, err error) {
	root := "/apis"
	if st.GVR.Group == "" {
		root = "/api"
	}
	err = s.client.Get().AbsPath(root, st.GVR.Group, st.GVR.Version).NamespaceIfScoped(st.Namespace, st.Namespace != "").Resource(st.GVR.Resource).
		SetHeader("Accept", "application/json").Param("limit", "1").Param("fieldSelector", st.FieldSelector).Do(ctx).Error()
	switch {
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return oneLine(err.Error()), nil
	case err != nil:
		return "", fmt.Errorf("list %s: %w", st.Name(), err)
	}
	return "", nil
}

// addUnresolved notes why an entry results in no stream; nil: it results in some.
func (e *Examination) addUnresolved(cfg *config.Config, entry config.Resource, err error) {
	if err == nil {
		return
	}
	state := "pending: " + err.Error()
	if discovery.IsConfigFault(err) {
		state = "config fault"
		e.Faults = append(e.Faults, config.Fault{Msg: err.Error()})
	} else {
		e.Pending = append(e.Pending, cfg.Fault(entry.Entry, "resource", err.Error()+remedyFor(err)))
	}
	e.Rows = append(e.Rows, Row{entry.Entry, rbac.EntryName(entry), "-", "-", state})
}

// remedyFor is what a user can do about an entry without a stream, where the error itself does not say it.
func remedyFor(err error) string {
	switch {
	case errors.As(err, new(*discovery.NotFoundError)):
		return "; it starts once that is there, see 'kubejournal resources' for what is"
	case errors.As(err, new(*discovery.UnwatchableError)):
		return "; see 'kubejournal resources' for what can be"
	}
	return ""
}
