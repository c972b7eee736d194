package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// Ledger is what was done, and when. What came of it is in the audit log beside it.
type Ledger struct {
	Steps   []*Step  `json:"steps"`
	Outages []Outage `json:"outages"`
}

// Step is one act of the story.
type Step struct {
	Name  string    `json:"name"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Typed []string  `json:"typed,omitempty"`
}

// Outage is a time in which kubejournal saw nothing.
type Outage struct {
	Cause string    `json:"cause"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

func (g *Ledger) begin(name string) { g.Steps = append(g.Steps, &Step{Name: name, From: time.Now()}) }
func (g *Ledger) end()              { g.last().Until = time.Now() }
func (g *Ledger) last() *Step       { return g.Steps[len(g.Steps)-1] }

// step returns the step whose name begins like that.
func (g *Ledger) step(name string) *Step {
	return g.Steps[slices.IndexFunc(g.Steps, func(s *Step) bool { return strings.HasPrefix(s.Name, name) })]
}

func (g *Ledger) typed(command string) { g.last().Typed = append(g.last().Typed, command) }

// out begins an outage, and back ends it.
func (g *Ledger) out(cause string) {
	g.Outages = append(g.Outages, Outage{Cause: cause, From: time.Now()})
}
func (g *Ledger) back() { g.Outages[len(g.Outages)-1].Until = time.Now() }

func (g *Ledger) write(path string) error {
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
