package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubejournal/test/invariant"
)

// Entry is an entry of the config's resources.
type Entry struct {
	Kind       Kind
	Version    string   // "": the server's preferred one
	Namespaces []string // none: one stream of all
	Selector   string   // app=VALUE, or "" for all
	Changes    bool     // its lines say what changed
}

// Config is the entry as the config has it.
func (e Entry) Config() map[string]any {
	c := map[string]any{"resource": e.Kind.Resource.Resource, "group": e.Kind.Resource.Group}
	if e.Version != "" {
		c["version"] = e.Version
	}
	if len(e.Namespaces) > 0 {
		c["namespaces"] = e.Namespaces
	}
	if e.Selector != "" {
		c["labelSelector"] = e.Selector
	}
	if e.Changes {
		c["changes"] = true
	}
	return c
}

// Configs are the entries as the config has them.
func Configs(entries []Entry) []any {
	var all []any
	for _, e := range entries {
		all = append(all, e.Config())
	}
	return all
}

// Source is what one stream of an entry reads.
type Source struct {
	Entry
	Namespace string // "": all
}

// Sources are those of all entries.
func Sources(entries []Entry) []Source {
	var all []Source
	for _, e := range entries {
		if len(e.Namespaces) == 0 {
			all = append(all, Source{e, ""})
		}
		for _, ns := range e.Namespaces {
			all = append(all, Source{e, ns})
		}
	}
	return all
}

// Stream is the name that docs/line.md gives to what s reads.
func (s Source) Stream() string {
	name, separator := s.Kind.Resource.GroupResource().String(), "?"
	if s.Namespace != "" {
		name, separator = name+separator+"namespace="+s.Namespace, "&"
	}
	if s.Selector != "" {
		name += separator + "labelSelector=" + url.QueryEscape(s.Selector)
	}
	return name
}

// covers reports whether s reads an object where its label app is this; "" is no object.
func (s Source) covers(o Object, app string) bool {
	return app != "" && s.Kind.Resource.GroupResource() == o.Kind.Resource.GroupResource() &&
		(s.Namespace == "" || s.Namespace == o.Namespace) &&
		(s.Selector == "" || s.Selector == "app="+app)
}

// Live lists what the sources read.
func Live(ctx context.Context, client dynamic.Interface, sources []Source) (invariant.State, error) {
	state := make(invariant.State)
	for _, s := range sources {
		gvr := s.Kind.Resource
		list, err := client.Resource(gvr).Namespace(s.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: s.Selector})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", s.Stream(), err)
		}
		for _, item := range list.Items {
			k := invariant.Key{Group: gvr.Group, Resource: gvr.Resource, Namespace: item.GetNamespace(),
				Name: item.GetName()}
			content, err := json.Marshal(item.Object)
			if err != nil {
				return nil, fmt.Errorf("encode %s: %w", k, err)
			}
			if state[k], err = invariant.Expect(k, content); err != nil {
				return nil, err
			}
		}
	}
	return state, nil
}
