package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// section is one part of the table.
type section struct {
	title string
	rows  []row
}

// row is a figure of kubejournal's.
type row struct {
	figure string
	unit   string // as people write it
	of     measure
	beside []beside
	goals  []goal
}

// beside is what the figure is compared with.
type beside struct {
	name string
	of   measure
	// scale makes it comparable, where the baseline was measured on less; 0 is 1. The name says so.
	scale float64
}

// goal is an upper bound.
type goal struct {
	most  float64
	over  *beside   // of the figure divided by this; nil: of the figure itself
	every []measure // figures beside the row's that it is for too
}

// verdicts of a goal.
const (
	met      = "met"
	notMet   = "**not met**"
	unjudged = "not measured"
)

// header is the beginning of the table.
const header = "| figure | kubejournal | beside it, from the same run | goal | |\n| --- | --- | --- | --- | --- |\n"

// print leaves out what was not measured, but not goals. It returns how many goals are missed or were not measured.
func (s section) print(w io.Writer, r results) (missed int) {
	begun := false
	for _, o := range s.rows {
		if len(r[o.of]) == 0 && len(o.goals) == 0 {
			continue
		}
		if !begun {
			fmt.Fprintf(w, "| **%s** | | | | |\n", s.title)
			begun = true
		}
		missed += o.print(w, r)
	}
	return missed
}

func (o row) print(w io.Writer, r results) (missed int) {
	var besides, goals, verdicts []string
	for _, b := range o.beside {
		text := b.name + " " + show(valueOf(b.runs(r)), o.unit)
		if q := b.ratio(r, o.of); q.runs > 0 {
			text += " (" + factor(q.median) + ")"
		}
		besides = append(besides, text)
	}
	for _, g := range o.goals {
		verdict := g.judge(r, o.of)
		if verdict != met {
			missed++
		}
		goals, verdicts = append(goals, g.text(o.unit)), append(verdicts, verdict)
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", o.figure, show(valueOf(r[o.of]), o.unit),
		strings.Join(besides, "; "), strings.Join(goals, "; "), strings.Join(verdicts, "; "))
	return missed
}

func (b beside) runs(r results) []float64 {
	if b.scale == 0 {
		return r[b.of]
	}
	scaled := make([]float64, len(r[b.of]))
	for i, v := range r[b.of] {
		scaled[i] = v * b.scale
	}
	return scaled
}

func (b beside) ratio(r results, of measure) value { return ratio(r[of], b.runs(r)) }
func (g goal) figure(r results, of measure) (v value) {
	if g.over != nil {
		return g.over.ratio(r, of)
	}
	return valueOf(r[of])
}

// judge compares the figure, or where the goal is for several each of them.
func (g goal) judge(r results, of measure) string {
	for _, of := range append([]measure{of}, g.every...) {
		switch v := g.figure(r, of); {
		case v.runs == 0:
			return unjudged
		case v.median > g.most:
			return notMet
		}
	}
	return met
}

func (g goal) text(unit string) string {
	if g.over != nil {
		return "≤ " + factor(g.most) + " " + g.over.name
	}
	return "≤ " + inUnit(g.most, unit)
}

// show writes a value with its unit, and how far the runs were apart.
func show(v value, unit string) string {
	if v.runs == 0 {
		return "-"
	}
	text := inUnit(v.median, unit)
	if v.runs > 1 {
		text += fmt.Sprintf(" ±%.0f%%", 100*v.spread)
	}
	return text
}

// times are the units of time, each a thousand of the one before.
var times = []string{"ns", "us", "ms", "s"}

// inUnit writes a figure; a time as people read it.
func inUnit(f float64, unit string) string {
	if i := slices.Index(times, unit); i >= 0 {
		for ; f >= 1000 && i < len(times)-1; i++ {
			f /= 1000
		}
		unit = times[i]
	}
	return strings.TrimSpace(number(f) + " " + unit)
}

// factor writes a ratio, a small one as a fraction.
func factor(f float64) string {
	if f > 0 && f < 0.5 {
		return "1/" + number(1/f)
	}
	return number(f) + " x"
}
