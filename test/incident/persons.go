package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/program"
)

// levels are those of an audit log, and what an event has no more at each.
var levels = []struct {
	name   string
	leaves []string
}{
	{"RequestResponse", nil},
	{"Request", []string{"responseObject"}},
	{"Metadata", []string{"requestObject", "responseObject"}},
}

// persons has kubejournal read the audit log at each level, and holds whom it names against the log.
func (x *incident) persons(ctx context.Context) error {
	log, err := os.ReadFile(filepath.Join(x.out, "audit.log"))
	if err != nil {
		return err
	}
	requests, err := cluster.ParseAudit(log)
	if err != nil {
		return err
	}
	writes, err := cluster.NewWrites(requests)
	if err != nil {
		return err
	}
	lines, err := x.read()
	if err != nil {
		return err
	}
	c := &namesCourt{judged: judgeAll(lines, writes), byID: make(map[string]*cluster.Request)}
	for i := range requests {
		c.byID[requests[i].ID] = &requests[i]
	}
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "level\tlines\tright\tnobody\twrong\t")
	var faults error
	for _, level := range levels {
		named, err := x.named(ctx, level.name, reduce(log, level.leaves))
		if err != nil {
			return err
		}
		count, err := c.judge(named)
		faults = errors.Join(faults, err)
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t\n", level.name, len(c.judged), count[right], count[absent], count[wrong])
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Printf("\nWho is named, by the level of the audit log:\n\n%s\n", text.String())
	return errors.Join(faults, x.keep("persons.txt", text.String()))
}

// reduce returns an audit log as it is at a lower level.
func reduce(log []byte, leaves []string) []byte {
	if len(leaves) == 0 {
		return log
	}
	var out []byte
	for l := range bytes.Lines(log) {
		var event map[string]json.RawMessage
		if json.Unmarshal(l, &event) != nil {
			continue // the last one may not be whole
		}
		for _, member := range leaves {
			delete(event, member)
		}
		event["level"] = json.RawMessage(`"Metadata"`)
		if len(leaves) == 1 {
			event["level"] = json.RawMessage(`"Request"`)
		}
		l, err := json.Marshal(event)
		if err != nil {
			panic(err) // it was read from JSON
		}
		out = append(append(out, l...), '\n')
	}
	return out
}

// person is whom a line names.
type person struct{ User, AuditID string }

// named returns whom kubejournal names for each line, by seq, with a copy of the journal and a log.
func (x *incident) named(ctx context.Context, level string, log []byte) (map[uint64]person, error) {
	folder, err := os.MkdirTemp("", "kubejournal-incident-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := errors.Join(os.CopyFS(folder, os.DirFS(x.out)),
		os.WriteFile(filepath.Join(folder, level+".log"), log, 0o600)); err != nil {
		return nil, err
	}
	ask := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, x.program, append(args, "--journal", "journal.jsonl")...)
		var stderr strings.Builder
		cmd.Dir, cmd.Env, cmd.Stderr = folder, program.Environ(x.work, "TZ=UTC"), &stderr
		out, err := cmd.Output()
		if status, err := statusOf(err); err != nil || !isStatus(status, answered) {
			return nil, fmt.Errorf("kubejournal %s: status %d, %w\n%s", args[0], status, err, stderr.String())
		}
		return out, nil
	}
	if _, err := ask("audit", level+".log"); err != nil {
		return nil, err
	}
	out, err := ask("history", "--all", "-o", "json")
	if err != nil {
		return nil, err
	}
	all := make(map[uint64]person)
	for l := range bytes.Lines(out) {
		var is struct {
			Seq    uint64
			Person *person
		}
		if err := json.Unmarshal(l, &is); err != nil {
			return nil, err
		}
		if is.Person != nil {
			all[is.Seq] = *is.Person
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nobody is named at the level %s", level)
	}
	return all, nil
}

// namesCourt knows which requests made which line.
type namesCourt struct {
	judged []judged
	byID   map[string]*cluster.Request
}

// judge counts whom lines name, and returns what is wrong as an error.
func (c *namesCourt) judge(named map[uint64]person) (count [answers]int, faults error) {
	for i := range c.judged {
		j := &c.judged[i]
		p, is := named[j.Seq]
		switch r := c.byID[p.AuditID]; {
		case !is:
			count[absent]++
		case r != nil && r.User == p.User && (j.has(r) || j.deletes(r)):
			count[right]++
		default:
			count[wrong]++
			faults = errors.Join(faults, fmt.Errorf("seq %d, %s %s/%s: %s (%s) is wrong: %s",
				j.Seq, j.Type, j.Namespace, j.Name, p.User, p.AuditID, j.candidates()))
		}
	}
	return count, faults
}

// has reports whether a request may have written the line's version.
func (j *judged) has(r *cluster.Request) bool {
	for _, w := range j.writers {
		if w.ID == r.ID {
			return true
		}
	}
	return false
}

// deletes reports whether a request deletes the object that a DELETED is about: the line names who asked for that,
// which may have been long before.
func (j *judged) deletes(r *cluster.Request) bool {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	of, _, _ := strings.Cut(resource, ".")
	asks := r.Verb == "delete" && subresource == "" && r.Name == j.Name ||
		r.Verb == "create" && subresource == "eviction" && r.Name == j.Name ||
		r.Verb == "deletecollection" && (r.Object == nil || bytes.Contains(r.Object, []byte(j.UID)))
	return j.Type == invariant.Deleted && asks && of == j.Resource && r.Code/100 == 2 &&
		(r.UID == "" || r.UID == j.UID) && (r.Namespace == j.Namespace || of == "namespaces")
}
