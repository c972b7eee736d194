package main

import (
	"encoding/json"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How kubejournal learned of a change.
const (
	live   = "live"   // as it was made
	late   = "late"   // at the next start: the server still had the history
	missed = "missed" // by comparison, behind a GAP
)

const redacted = "REDACTED" // both values of a field that are not the journal's to have

// Ledger is what was done. Its fields are what a question to the journal asks for, and what the answer has to be.
type Ledger struct {
	Steps   []*Step  `json:"steps"`
	Outages []Outage `json:"outages"`
	learned string   // of the changes to come
}

// Step is one act of the story.
type Step struct {
	Name    string    `json:"name"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Typed   []string  `json:"typed,omitempty"`
	Changes []Change  `json:"changes,omitempty"`
}

// Outage is a time in which kubejournal saw nothing.
type Outage struct {
	Cause string    `json:"cause"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// Change is one change of one object: that the field went from one value to another, or that the object came or went.
type Change struct {
	Type        string `json:"type"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	UID         string `json:"uid"`
	Field       string `json:"field,omitempty"` // JSON Pointer
	From        any    `json:"from,omitempty"`
	To          any    `json:"to,omitempty"`
	Manager     string `json:"manager,omitempty"` // "" of a deletion: the API does not say
	Subresource string `json:"subresource,omitempty"`
	// The server took the change between these.
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	Learned   string    `json:"learned"`
}

// object is where an object is.
type object struct {
	schema.GroupVersionResource
	namespace, name string
}

// by is who makes a change: a field manager and, where it has one, the subresource.
type by struct{ manager, subresource string }

// change is one of an object, which the server took between notBefore and now.
func (o object) change(typ string, is *unstructured.Unstructured, who by, notBefore time.Time) Change {
	return Change{
		Type: typ, Group: o.Group, Resource: o.Resource, Namespace: o.namespace, Name: o.name, UID: string(is.GetUID()),
		Manager: who.manager, Subresource: who.subresource, NotBefore: notBefore, NotAfter: time.Now(),
	}
}

// of is the change as one of a field.
func (c Change) of(field string, from, to any) Change {
	c.Field, c.From, c.To = field, from, to
	return c
}

func (g *Ledger) begin(name string) { g.Steps = append(g.Steps, &Step{Name: name, From: time.Now()}) }
func (g *Ledger) end()              { g.last().Until = time.Now() }
func (g *Ledger) last() *Step       { return g.Steps[len(g.Steps)-1] }

func (g *Ledger) typed(command string) { g.last().Typed = append(g.last().Typed, command) }

func (g *Ledger) add(changes ...Change) {
	for _, c := range changes {
		if c.Learned = g.learned; c.Resource == secrets.Resource && c.Field != "" {
			c.From, c.To = redacted, redacted
		}
		g.last().Changes = append(g.last().Changes, c)
	}
}

// out begins an outage: what changes from now on is learned otherwise. back ends it.
func (g *Ledger) out(cause, learned string) {
	g.learned = learned
	g.Outages = append(g.Outages, Outage{Cause: cause, From: time.Now()})
}

func (g *Ledger) back() {
	g.learned = live
	g.Outages[len(g.Outages)-1].Until = time.Now()
}

func (g *Ledger) write(path string) error {
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
