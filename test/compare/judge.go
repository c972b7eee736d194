package main

import (
	"fmt"
	"strings"
)

// The types of changes, as in a watch, and those of the records that tell of no object but of a hole.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// change is one of an object: a write that the server acknowledged, or what a reader tells.
type change struct {
	Type    string
	Name    string // namespace/name
	UID     string
	Version string // the server does not say that of a deletion it acknowledges
}

// output is what a reader has written over all its runs.
type output struct {
	changes []change
	broken  int  // documents that are no JSON, or none of the reader's
	gap     bool // one of them says that there was a gap
}

// in keeps what is told of a namespace.
func (o output) in(namespace string) output {
	var kept []change
	for _, c := range o.changes {
		if strings.HasPrefix(c.Name, namespace+"/") {
			kept = append(kept, c)
		}
	}
	o.changes = kept
	return o
}

// verdict is what became of acknowledged writes.
type verdict struct {
	Writes, Lost             int // acknowledged; of those, told by nothing
	Deletions, DeletionsLost int // part of these
	Repeated                 int // changes that were told before
	Invented                 int // changes that nobody made

	// What the writes of the gap come to, object by object.
	Net, NetTold                   int
	NetDeletions, NetDeletionsTold int // part of these

	Wrong int // objects that a replay of the output lacks, or has in another state
	Stale int // objects that a replay has and the server has not
}

// version is an object in one state. Deleted, it has no version: nobody knows that of every deletion.
type version struct{ uid, version string }

func (c change) version() version {
	if c.Type == deleted {
		return version{uid: c.UID}
	}
	return version{c.UID, c.Version}
}

// state is objects by their names.
type state map[string]version

// follow applies changes. One object's are in order; a deletion is of its own object only, whatever has its name now.
func (s state) follow(changes []change) {
	for _, c := range changes {
		switch {
		case c.Type != deleted:
			s[c.Name] = c.version()
		case s[c.Name].uid == c.UID:
			delete(s, c.Name)
		}
	}
}

// judge holds what a reader told against acknowledged writes: those from before a gap and those within it. All readers
// are judged by it alike.
func judge(before, within, told []change) verdict {
	var v verdict
	made, tellings := make(map[version]bool), make(map[version]int)
	for _, c := range told {
		tellings[c.version()]++
	}
	for _, writes := range [][]change{before, within} {
		for _, w := range writes {
			made[w.version()] = true
			lost := 0
			if tellings[w.version()] == 0 {
				lost = 1
			}
			v.Writes++
			v.Lost += lost
			if w.Type == deleted {
				v.Deletions++
				v.DeletionsLost += lost
			}
		}
	}
	for what, times := range tellings {
		v.Repeated += times - 1
		if !made[what] {
			v.Invented++
		}
	}

	then, now, replayed := make(state), make(state), make(state)
	then.follow(before)
	now.follow(before)
	now.follow(within)
	replayed.follow(told)
	v.net(then, now, tellings)
	for name, is := range now {
		if replayed[name] != is {
			v.Wrong++
		}
	}
	for name := range replayed {
		if _, there := now[name]; !there {
			v.Stale++
		}
	}
	return v
}

// net compares two states. An object that was deleted and made again under its name is two differences.
func (v *verdict) net(then, now state, tellings map[version]int) {
	told := func(what version) int { return min(1, tellings[what]) }
	for name, was := range then {
		if gone := (version{uid: was.uid}); now[name].uid != was.uid {
			v.Net++
			v.NetTold += told(gone)
			v.NetDeletions++
			v.NetDeletionsTold += told(gone)
		}
	}
	for name, is := range now {
		if then[name] != is {
			v.Net++
			v.NetTold += told(is)
		}
	}
}

// span is a figure of several rounds.
type span struct{ low, high int }

func (s span) String() string {
	if s.low == s.high {
		return thousands(s.low)
	}
	return thousands(s.low) + " to " + thousands(s.high)
}

func spanOf(all []finding, figure func(finding) int) span {
	s := span{figure(all[0]), figure(all[0])}
	for _, v := range all[1:] {
		s.low, s.high = min(s.low, figure(v)), max(s.high, figure(v))
	}
	return s
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
