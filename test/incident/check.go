package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// delay is how much later than the server's answer a line may come that no outage holds up.
const delay = 30 * time.Second

func (x *incident) read() ([]invariant.Line, error) {
	return invariant.ReadJournal(filepath.Join(x.out, "journal.jsonl"))
}

// truth reads the audit log.
func (x *incident) truth() (*cluster.Writes, error) {
	requests, err := x.cluster.Requests()
	if err != nil {
		return nil, err
	}
	return cluster.NewWrites(requests)
}

// check holds the journal against the audit log, and returns what it says of writers as tables.
func (x *incident) check(strict bool) (kinds, examples string, err error) {
	writes, err := x.truth()
	if err != nil {
		return "", "", err
	}
	lines, err := x.read()
	if err != nil {
		return "", "", err
	}
	all := judgeAll(lines, writes)
	examples, faults := x.show(all)
	if !slices.ContainsFunc(lines, isRotation) {
		faults = append(faults, errors.New("the rotated password is no change"))
	}
	for i := range all {
		j := &all[i]
		if j.wrong() {
			who := name(j.Manager, j.Subresource)
			faults = append(faults,
				fmt.Errorf("seq %d, %s: %s %q is wrong: %s", j.Seq, j.key, who, j.WrittenAt, j.candidates()))
		}
		if err := x.timely(j); err != nil {
			faults = append(faults, err)
		}
	}
	if !strict {
		for _, f := range faults {
			fmt.Println(f)
		}
		faults = nil
	}
	return table(all), examples, errors.Join(append(faults, x.gaps(lines), missing(lines, writes),
		invariant.All(lines, invariant.Options{}), invariant.Changes(lines), x.leaks())...)
}

func (j *judged) candidates() (text string) {
	for _, r := range j.writers {
		text += fmt.Sprintf("\n    %s %s %s, %s to %s", nameOf(r), r.Verb, r.RequestURI, clock(r.Received),
			clock(r.Answered))
	}
	return text
}

// timely checks that a line came neither before its version nor long after it.
func (x *incident) timely(j *judged) error {
	at, err := time.Parse(time.RFC3339Nano, j.Time)
	if err != nil || len(j.writers) == 0 || j.Origin != invariant.FromWatch {
		return err
	}
	byTime := func(a, b *cluster.Request) int { return a.Received.Compare(b.Received) }
	from, until := slices.MinFunc(j.writers, byTime).Received, slices.MaxFunc(j.writers, byTime).Answered.Add(delay)
	for _, o := range x.ledger.Outages {
		// a stream may be in a long pause
		if resumed := o.Until.Add(patience); until.After(o.From) && until.Before(resumed) {
			until = resumed
		}
		if at.After(o.From.Add(time.Second)) && at.Before(o.Until) {
			return fmt.Errorf("seq %d came while %s", j.Seq, o.Cause)
		}
	}
	if at.Before(from) || at.After(until) {
		return fmt.Errorf("seq %d, %s, came at %s, not between %s and %s: %s", j.Seq, j.key, clock(at), clock(from),
			clock(until), j.candidates())
	}
	return nil
}

// gaps checks that history was lost when the server forgot it, and only then.
func (x *incident) gaps(lines []invariant.Line) error {
	n := 0
	for i := range lines {
		if at, err := time.Parse(time.RFC3339Nano, lines[i].Time); lines[i].Type == invariant.Gap {
			if n++; err != nil || at.Before(x.ledger.Outages[1].Until) {
				return fmt.Errorf("seq %d: a GAP where the server had the history", lines[i].Seq)
			}
		}
	}
	if n == 0 {
		return errors.New("the server has forgotten, and there is no GAP")
	}
	return nil
}

// isRotation reports whether a line says that the password was changed.
func isRotation(l invariant.Line) bool {
	var operations []struct{ Path string }
	return l.Name == "db-login" && json.Unmarshal(l.Raw("changes"), &operations) == nil &&
		slices.ContainsFunc(operations, func(o struct{ Path string }) bool { return o.Path == "/data/password" })
}

// caughtUp waits until the journal has all that was written.
func (x *incident) caughtUp(ctx context.Context) error {
	return x.daemon.Wait(ctx, patience, "the journal has all writes", func() error {
		writes, err := x.truth()
		if err != nil {
			return err
		}
		lines, err := x.read()
		if err != nil {
			return err // or the last line is just being written
		}
		return missing(lines, writes)
	})
}

// atRest waits until replaying the journal gives the objects that the server has.
func (x *incident) atRest(ctx context.Context) error {
	return x.daemon.Wait(ctx, patience, "the journal has what the server has", func() error {
		lines, err := x.read()
		if err != nil {
			return err
		}
		replayed, err := invariant.Replay(lines)
		if err != nil {
			return err
		}
		is, err := workload.Live(ctx, x.client, sources(lines))
		if err != nil {
			return err
		}
		return invariant.Compare(replayed, is)
	})
}

// sources is what the streams read, but of the definitions that were deleted.
func sources(lines []invariant.Line) []workload.Source {
	all := make(map[schema.GroupVersionResource]workload.Source)
	for i := range lines {
		if l := &lines[i]; l.Type == invariant.Synced && !strings.HasSuffix(l.Group, ".example.com") {
			r := schema.GroupVersionResource{Group: l.Group, Version: l.Version, Resource: l.Resource}
			all[r] = workload.Source{Entry: workload.Entry{Kind: workload.Kind{Resource: r}}}
		}
	}
	return slices.Collect(maps.Values(all))
}

// missing checks that the journal has each version that an answer named, and the same object.
func missing(lines []invariant.Line, writes *cluster.Writes) error {
	told, streams := make(map[cluster.Version]*invariant.Line), make(map[string]bool)
	for i := range lines {
		l := &lines[i]
		// a DELETED that a list has shown has the version before
		if streams[l.Stream] = true; l.FinalStateKnown == nil {
			told[cluster.Version{UID: l.UID, Number: l.ResourceVersion}] = l
		}
	}
	var want []invariant.Write
	journal, server := make(invariant.State), make(invariant.State)
	for v, all := range writes.Made {
		r := all[0]
		resource, _, _ := strings.Cut(r.Resource, "/")
		if resource == "events.events.k8s.io" {
			resource = "events"
		}
		l := told[v]
		switch {
		case resource == "leases.coordination.k8s.io":
			continue
		case !streams[resource]:
			return fmt.Errorf("%s is written, and there is no stream of it", resource)
		case l == nil && r.Verb == "delete":
			continue // what was left of it
		}
		w := invariant.Write{Stream: resource, Type: invariant.Modified, UID: v.UID, ResourceVersion: v.Number,
			What: r.RequestURI}
		if r.Code == 201 {
			w.Type = invariant.Added
		} else if l != nil && l.Type == invariant.Deleted {
			w.Type = l.Type // a finalizer may have been removed from what was being deleted
		}
		want = append(want, w)
		if l == nil || l.Type == invariant.Deleted || !bytes.HasPrefix(r.Object, kindOf(l)) {
			continue // it was answered in another version of the API, or as a Scale
		}
		if r.Verb != "delete" && bytes.Contains(r.Object, []byte(`"deletionGracePeriodSeconds":0`)) {
			continue // such an update deletes what was there, and is answered with what it would have made of it
		}
		k := invariant.Key{Group: l.Group, Resource: l.Resource, Namespace: l.Namespace,
			Name: l.Name + " at " + v.Number}
		var lineErr, answerErr error
		journal[k], lineErr = invariant.Expect(k, l.Object)
		server[k], answerErr = invariant.Expect(k, r.Object)
		if err := errors.Join(lineErr, answerErr); err != nil {
			return err
		}
	}
	return errors.Join(invariant.Writes(lines, want), invariant.Compare(journal, server))
}

// kindOf is what an object begins with as the server encodes it.
func kindOf(l *invariant.Line) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, l.Kind, strings.TrimPrefix(l.Group+"/"+l.Version, "/"))
}

// leaks looks for the passwords in all that kubejournal has written.
func (x *incident) leaks() error {
	return filepath.WalkDir(x.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := invariant.ReadFile(path)
		if err != nil {
			return err
		}
		return workload.Leak(path, content)
	})
}

// value is what a JSON Pointer leads to, nil where that is nothing.
func value(in any, pointer string) any {
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch of := in.(type) {
		case map[string]any:
			in = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(of) {
				return nil
			}
			in = of[i]
		default:
			return nil
		}
	}
	return in
}

// same compares values of a field, whatever kinds of numbers they were read as.
func same(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
