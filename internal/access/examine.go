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
	"kubejournal/internal/kubeclient"
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
	namespaces := schema.GroupResource{Resource: "namespaces"}
	asked := [][]discovery.Right{{{Verb: "get", Resource: namespaces, Name: "kube-system", Namespace: "kube-system"}}}
	for _, resolved := range all {
		for _, st := range resolved.Streams {
			asked = append(asked, st.Rights())
		}
	}
	refusals, err := s.refusals(ctx, asked)
	if err != nil {
		return nil, err
	}
	if refusals[0] != "" {
		e.Warnings = append(e.Warnings, config.Fault{File: "kubejournal: warning",
			Msg: "this identity " + refusals[0] + " the namespace kube-system: run cannot tell whether a checkpoint belongs to the cluster; grant it, see 'kubejournal rbac --help'"})
	}
	for i, resolved := range all {
		entry := cfg.Resources[i]
		for _, st := range resolved.Streams {
			e.Streams++
			state, err := s.examineStream(ctx, cfg, e, st, refusals[e.Streams])
			if err != nil {
				return nil, err
			}
			e.Rows = append(e.Rows, Row{entry.Entry, rbac.EntryName(entry), st.Name(), st.GVR.Version, state})
		}
		if resolved.Err != nil {
			e.addUnresolved(cfg, entry, resolved.Err)
		}
	}
	e.Faults = slices.Compact(e.Faults) // an entry has a stream for each of its namespaces
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

// examineStream returns the state of a stream that this identity is refused, or not where why is "".
func (s *Server) examineStream(ctx context.Context, cfg *config.Config, e *Examination, st discovery.Stream, why string) (string, error) {
	if why != "" {
		field := "resource"
		if len(st.Entry.Namespaces) > 0 {
			field = "namespaces"
		}
		e.Pending = append(e.Pending, cfg.Fault(st.Entry.Entry, field,
			fmt.Sprintf("%s: this identity %s; grant it, see 'kubejournal rbac --help'", st.Name(), why)))
		return "pending: " + why, nil
	}
	if st.FieldSelector == "" {
		return "ok", nil
	}
	// Each resource has fields of its own to select by, which discovery does not name.
	err := s.client.Get().AbsPath(kubeclient.Target{Resource: st.GVR, Namespace: st.Namespace}.Path()...).
		SetHeader("Accept", "application/json").Param("limit", "1").Param("fieldSelector", st.FieldSelector).Do(ctx).Error()
	switch {
	case err == nil:
		return "ok", nil
	case !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err):
		return "", fmt.Errorf("list %s: %w", st.Name(), err)
	}
	msg := fmt.Sprintf("the server does not select %s by %q: %s; take a field that it knows, or 'filter'",
		st.GVR.GroupResource(), st.FieldSelector, oneLine(err.Error()))
	e.Faults = append(e.Faults, cfg.Fault(st.Entry.Entry, "fieldSelector", msg))
	return "config fault", nil
}

// addUnresolved notes why an entry results in no stream, or in fewer than it asks for.
func (e *Examination) addUnresolved(cfg *config.Config, entry config.Resource, err error) {
	row := Row{entry.Entry, rbac.EntryName(entry), "-", "-", "pending: " + err.Error()}
	remedy := "" // the others name theirs
	switch {
	case errors.As(err, new(*discovery.NotFoundError)):
		remedy = "; it starts once that is there, see 'kubejournal resources' for what is"
	case errors.As(err, new(*discovery.UnwatchableError)):
		remedy = "; see 'kubejournal resources' for what can be"
	}
	if discovery.IsConfigFault(err) {
		row.State = "config fault"
		e.Faults = append(e.Faults, config.Fault{Msg: err.Error()})
	} else {
		e.Pending = append(e.Pending, cfg.Fault(entry.Entry, "resource", err.Error()+remedy))
	}
	e.Rows = append(e.Rows, row)
}
