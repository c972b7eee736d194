package argument

import "slices"

// DefinedNames are spec.names of a CustomResourceDefinition.
type DefinedNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular"`
	Kind       string   `json:"kind"`
	ShortNames []string `json:"shortNames"`
}

// Defines reports whether a resource is what is defined, in its plural and without a group.
func (d *DefinedNames) Defines(r *Resource) bool {
	return d.Plural != "" && r.name == d.Plural && !r.hasGroup
}

// Resolve makes a resource select what is defined, if it is written in one of its names.
func (d *DefinedNames) Resolve(r *Resource, group string) bool {
	if d.Plural == "" || group == "" || r.hasGroup || r.name != d.Singular && !slices.Contains(d.ShortNames, r.name) {
		return false
	}
	*r = Resource{name: d.Plural, group: group, hasGroup: true}
	return true
}
