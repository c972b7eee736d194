package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/discovery"
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
	var targets []*client.Target
	for _, resolved := range all {
		for _, st := range resolved.Streams {
			var t *client.Target
			if refusals[1+len(targets)] == "" {
				t = &client.Target{
					Resource: st.GVR, Namespace: st.Namespace, LabelSelector: st.LabelSelector,
					FieldSelector: st.FieldSelector,
				}
			}
			targets = append(targets, t)
		}
	}
	listed, err := s.list(ctx, targets)
	if err != nil {
		return nil, err
	}
	for i, resolved := range all {
		entry := cfg.Resources[i]
		for _, st := range resolved.Streams {
			target, l := targets[e.Streams], &listed[e.Streams]
			e.Streams++
			state := e.stateOf(cfg, st, refusals[e.Streams], target, l)
			e.Rows = append(e.Rows, Row{entry.Entry, EntryName(entry), st.Name(), st.GVR.Version, state})
		}
		if resolved.Err != nil {
			e.addUnresolved(cfg, entry, resolved.Err)
		}
	}
	e.Faults = slices.Compact(e.Faults) // an entry has a stream for each of its namespaces
	for _, at := range unknown(s.Resolver, cfg) {
		if err := s.CheckRule(at.name); at.verb == redacted && err != nil {
			e.Faults = append(e.Faults, cfg.Fault(at.entry, at.field, err.Error()+"; nothing would be redacted"))
			continue
		}
		e.Warnings = append(e.Warnings, cfg.Fault(at.entry, at.field,
			fmt.Sprintf("warning: the server has no resource %q%s; nothing of that name is there to be %s now",
				at.name, discovery.DidYouMean(at.near), at.verb)))
	}
	if err := s.examineLease(ctx, cfg, e); err != nil {
		return nil, err
	}
	missing, err := s.missingNamespaces(ctx, cfg)
	e.Warnings = append(e.Warnings, missing...)
	return e, err
}

// ExamineOffline is what can be said of a config without a server, by Kubernetes' own resources: what is wrong on each
// one, and names that may be misspelt.
func ExamineOffline(cfg *config.Config) (faults, warnings config.Faults) {
	resolver := discovery.Offline()
	warnings = warnOfLease(cfg)
	warn := func(entry, field, name, near string) {
		if near != "" {
			warnings = append(warnings, cfg.Fault(entry, field,
				fmt.Sprintf("warning: Kubernetes has no resource %q of its own%s", name, discovery.DidYouMean(near))))
		}
	}
	for i, resolved := range resolver.ResolveAll(cfg.Resources) {
		entry := cfg.Resources[i]
		if missing, is := errors.AsType[*discovery.NotFoundError](resolved.Err); is {
			warn(entry.Entry, "resource", missing.Name, missing.Near)
		}
		if discovery.IsConfigFault(resolved.Err) {
			faults = append(faults, config.Fault{Msg: resolved.Err.Error()})
		}
	}
	for _, at := range unknown(resolver, cfg) {
		warn(at.entry, at.field, at.name, at.near)
	}
	return faults, warnings
}

// mention is a name that is to keep something out of the journal, its place, and what it may be a misspelling of.
type mention struct{ entry, field, name, verb, near string }

const redacted = "redacted" // the verb of a redact rule

// unknown returns the mentions that are of no resource which is known.
func unknown(resolver *discovery.Resolver, cfg *config.Config) []mention {
	var all []mention
	add := func(entry, field, name, verb string) {
		if _, known := resolver.Fits(name, schema.GroupResource{}); !known {
			all = append(all, mention{entry, field, name, verb, resolver.Near(name)})
		}
	}
	for _, entry := range cfg.Resources {
		for i, name := range entry.Exclude {
			add(entry.Entry, fmt.Sprintf("exclude[%d]", i), name, "excluded")
		}
	}
	for _, rule := range cfg.Redact {
		add(rule.Entry, "resource", rule.Resource, redacted)
	}
	return all
}

// missingNamespaces warns of namespaces that entries name and the server does not have. They can be made later: a watch
// waits for their objects. Where this identity may not get a namespace, nothing is said of it.
func (s *Server) missingNamespaces(ctx context.Context, cfg *config.Config) (warnings config.Faults, err error) {
	there := map[string]bool{}
	for _, entry := range cfg.Resources {
		for i, name := range entry.Namespaces {
			if _, asked := there[name]; !asked {
				err := s.client.Get().AbsPath("api", "v1", "namespaces", name).Do(ctx).Error()
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
					return warnings, fmt.Errorf("get namespace %s: %w", name, err)
				}
				there[name] = !apierrors.IsNotFound(err)
			}
			if !there[name] {
				warnings = append(warnings, cfg.Fault(entry.Entry, fmt.Sprintf("namespaces[%d]", i),
					fmt.Sprintf(
						"warning: the server has no namespace %q; nothing is journalled of it until there is one", name,
					)))
			}
		}
	}
	return warnings, nil
}

// stateOf returns the state of a stream that this identity is refused, or not where why is "" and target was listed.
func (e *Examination) stateOf(
	cfg *config.Config, st discovery.Stream, why string, target *client.Target, l *listing,
) string {
	if why != "" {
		field := "resource"
		if len(st.Entry.Namespaces) > 0 {
			field = "namespaces"
		}
		e.Pending = append(e.Pending, cfg.Fault(st.Entry.Entry, field,
			fmt.Sprintf("%s: this identity %s; grant it, see 'kubejournal rbac --help'", st.Name(), why)))
		return "pending: " + why
	}
	if l.refusesFields(target) { // each resource has fields of its own to select by, which discovery does not name
		e.Faults = append(e.Faults, cfg.Fault(st.Entry.Entry, "fieldSelector",
			fmt.Sprintf("the server does not select %s by %q: %s; take a field that it knows, or 'filter'",
				st.GVR.GroupResource(), st.FieldSelector, oneLine(l.err.Error()))))
		return "config fault"
	}
	remedy := "; it starts once that works, see the server of this API"
	if l.unversioned {
		remedy = "; remove or exclude it, or use an API server of it that supports watching"
	}
	if found := l.finding(); found != "" {
		e.Pending = append(e.Pending, cfg.Fault(st.Entry.Entry, "resource", st.Name()+": "+found+remedy))
		return "failing: " + found
	}
	return "ok"
}

// addUnresolved notes why an entry results in no stream, or in fewer than it asks for.
func (e *Examination) addUnresolved(cfg *config.Config, entry config.Resource, err error) {
	row := Row{entry.Entry, EntryName(entry), "-", "-", "pending: " + err.Error()}
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

// Misspelt warns of names in a config that has faults, but for those names that have one. It takes nil for no config.
func Misspelt(draft *config.Config, faults config.Faults) config.Faults {
	if draft == nil {
		return nil
	}
	entry := func(f config.Fault) string {
		return strings.TrimSuffix(strings.TrimSuffix(f.Path, ".resource"), ".group")
	}
	_, warnings := ExamineOffline(draft)
	return slices.DeleteFunc(warnings, func(w config.Fault) bool {
		return slices.ContainsFunc(faults, func(f config.Fault) bool { return entry(f) == entry(w) })
	})
}

// WriteTable shows what became of the entries.
func (e *Examination) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENTRY\tRESOURCE\tSTREAM\tVERSION\tSTATE")
	for _, r := range e.Rows {
		fmt.Fprintln(t, terminal.Cells(r.Entry, r.Resource, r.Stream, r.Version, r.State))
	}
	return t.Flush()
}
