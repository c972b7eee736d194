package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/program"
)

// explained is what kubejournal why -o json says of an object.
type explained struct {
	thing
	Question string
	Links    []link
	Ends     string
	Doubts   []struct{ Stream, Reason string } `json:"notCovered"`

	args   string
	status int
}

// link is a link of its chain.
type link struct {
	thing
	Seq     uint64
	Lines   []uint64
	What    string
	Manager string
	Why     string
	Rule    string
	Certain bool
}

// thing names an object.
type thing struct{ Group, Kind, Namespace, Name, UID string }

// why asks of each object that was deleted why it is gone, and of each pod that failed why it does not run, and holds
// the answers against the audit log; then of the pods and Jobs again, of a journal without Events.
func (x *incident) why(ctx context.Context) error {
	audit, err := os.ReadFile(filepath.Join(x.out, "audit.log"))
	if err != nil {
		return err
	}
	requests, err := cluster.ParseAudit(audit)
	if err != nil {
		return err
	}
	lines, err := x.read()
	if err != nil {
		return err
	}
	c, err := newCourt(lines, requests)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kubejournal-incident-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	var rest []byte
	for i := range lines {
		if lines[i].Resource != "events" {
			rest = append(append(rest, lines[i].Text()...), '\n')
		}
	}
	journal := filepath.Join(folder, "journal.jsonl")
	if err := os.WriteFile(journal, rest, 0o600); err != nil {
		return err
	}
	text, faults := x.asks(ctx, c, c.questions())
	if faults == nil {
		var few [][]string
		for _, args := range c.questions() {
			if strings.HasPrefix(args[0], "pods.") || strings.HasPrefix(args[0], "jobs.") {
				few = append(few, append(args, "--journal", journal))
			}
		}
		var more string
		more, faults = x.asks(ctx, c, few)
		text += "\nWithout Events:\n\n" + more
	}
	fmt.Println(text)
	return errors.Join(faults, x.keep("why.txt", text))
}

// asks asks all questions, and returns the verdicts.
func (x *incident) asks(ctx context.Context, c *court, questions [][]string) (string, error) {
	all := make([]*explained, len(questions))
	faults := make([]error, len(questions))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for i := range next {
				all[i], faults[i] = x.explain(ctx, questions[i])
			}
		})
	}
	for i := range questions {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := errors.Join(faults...); err != nil {
		return "", err
	}
	return c.judge(all)
}

// explain asks kubejournal.
func (x *incident) explain(ctx context.Context, args []string) (*explained, error) {
	cmd := exec.CommandContext(ctx, x.program, append([]string{"why", "-o", "json"}, args...)...)
	cmd.Dir, cmd.Env = x.out, program.Environ(x.work, "TZ=UTC")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	status, err := statusOf(err)
	is := &explained{args: strings.Join(args, " "), status: status}
	if err == nil && !isStatus(status, answered) {
		err = fmt.Errorf("exit status %d", status)
	}
	if err == nil {
		err = json.Unmarshal(out, is)
	}
	if err != nil {
		return nil, fmt.Errorf("kubejournal why %s: %w\n%s%s", is.args, err, out, stderr.String())
	}
	return is, nil
}

// court knows what happened: versions from the journal, which check holds against the server's answers, and who wrote
// them from the audit log.
type court struct {
	bySeq    map[uint64]*invariant.Line
	versions map[string][]*invariant.Line // by uid
	names    map[string][]string          // uids that had a name, in their order
	uids     []string
	writes   *cluster.Writes
	removed  map[string][]*cluster.Request // deletions that were answered with the uid, in the order of their receipt
	parsed   map[*invariant.Line]map[string]any
}

func newCourt(lines []invariant.Line, requests []cluster.Request) (*court, error) {
	writes, err := cluster.NewWrites(requests)
	if err != nil {
		return nil, err
	}
	c := &court{
		bySeq: map[uint64]*invariant.Line{}, versions: map[string][]*invariant.Line{}, names: map[string][]string{},
		writes: writes, removed: map[string][]*cluster.Request{}, parsed: map[*invariant.Line]map[string]any{},
	}
	for i := range lines {
		l := &lines[i]
		if l.UID == "" {
			continue
		}
		c.bySeq[l.Seq] = l
		if c.versions[l.UID] == nil {
			c.uids = append(c.uids, l.UID)
			c.names[nameOfLine(l)] = append(c.names[nameOfLine(l)], l.UID)
		}
		c.versions[l.UID] = append(c.versions[l.UID], l)
	}
	for i := range requests {
		r := &requests[i]
		if r.Code/100 != 2 || r.Verb != "delete" && r.Verb != "deletecollection" {
			continue
		}
		var answer struct {
			Details  struct{ UID string }
			Metadata struct{ UID string }
			Items    []struct{ Metadata struct{ UID string } }
		}
		if r.Object == nil {
			continue // of Secrets
		}
		if err := json.Unmarshal(r.Object, &answer); err != nil {
			return nil, err
		}
		for _, item := range answer.Items {
			c.removed[item.Metadata.UID] = append(c.removed[item.Metadata.UID], r)
		}
		for _, uid := range []string{answer.Details.UID, answer.Metadata.UID} {
			if uid != "" {
				c.removed[uid] = append(c.removed[uid], r)
			}
		}
	}
	for _, of := range c.removed {
		slices.SortStableFunc(of, func(a, b *cluster.Request) int { return a.Received.Compare(b.Received) })
	}
	return c, nil
}

func nameOfLine(l *invariant.Line) string {
	return strings.Join([]string{l.Group, l.Resource, l.Namespace, l.Name}, " ")
}

// questions returns the arguments of what is asked: each object that was deleted, as long as nothing else has its name,
// each pod that failed, as long as it did, and each workload and object that was made again.
func (c *court) questions() (all [][]string) {
	for _, uid := range c.uids {
		versions := c.versions[uid]
		last := versions[len(versions)-1]
		if last.Resource == "events" {
			continue
		}
		args := []string{last.Resource + "." + last.Group + "/" + last.Name}
		if last.Namespace != "" {
			args = append(args, "-n", last.Namespace)
		}
		upTo := func(l *invariant.Line) []string {
			return append(slices.Clone(args), "--at", "seq:"+strconv.FormatUint(l.Seq-1, 10))
		}
		if last.Type == invariant.Deleted {
			named := c.names[nameOfLine(last)]
			if i := slices.Index(named, uid); i+1 < len(named) {
				all = append(all, upTo(c.versions[named[i+1]][0]))
			} else {
				all = append(all, args)
			}
		}
		for i, v := range slices.Backward(versions) {
			if last.Kind != "Pod" || v.Type == invariant.Deleted || !failing(c.object(v)) {
				continue
			}
			if i+1 < len(versions) {
				all = append(all, upTo(versions[i+1]))
			} else {
				all = append(all, args)
			}
			break
		}
		workload := slices.Contains([]string{"deployments", "statefulsets", "daemonsets", "jobs"}, last.Resource)
		if last.Type != invariant.Deleted && (workload || len(c.names[nameOfLine(last)]) > 1) {
			all = append(all, args)
		}
	}
	return all
}

// failing reports whether a pod's status says that it does not run as it should.
func failing(pod map[string]any) bool {
	if value(pod, "/status/phase") == "Failed" {
		return true
	}
	conditions, _ := value(pod, "/status/conditions").([]any)
	for _, c := range conditions {
		typ, is := value(c, "/type"), value(c, "/status")
		if is == "False" && (typ == "PodScheduled" || typ == "Ready" && value(pod, "/status/phase") == "Running") {
			return true
		}
	}
	reason := value(pod, waiting)
	return reason != nil && reason != "ContainerCreating" && reason != "PodInitializing"
}

// object is what a line has.
func (c *court) object(l *invariant.Line) map[string]any {
	if l == nil {
		return nil
	}
	if c.parsed[l] == nil {
		o := map[string]any{}
		_ = json.Unmarshal(l.Object, &o) // what has none has no values
		c.parsed[l] = o
	}
	return c.parsed[l]
}

// tally counts verdicts.
type tally struct{ certain, likely, overtaken, certainWrong, likelyWrong int }

// judge returns the verdicts as a table, and what is wrong.
func (c *court) judge(all []*explained) (string, error) {
	rules := map[string]*tally{}
	chains := map[string]int{}
	without := map[string]int{}
	var faults []error
	var notes []string
	seen := map[string]bool{}
	facts, factsWrong, doubts := 0, 0, 0
	for _, e := range all {
		if e.status == 3 {
			doubts++
			if len(e.Doubts) > 0 && e.Doubts[0].Stream != "" {
				notes = append(notes, fmt.Sprintf("doubt: why %s: %v", e.args, e.Doubts))
			}
		}
		if e.Question != "changed" { // what is there and well
			chains[e.Question+": "+c.reached(e)]++
		}
		if e.Question == "gone" && !slices.ContainsFunc(e.Links, func(l link) bool {
			return l.UID == e.UID && l.Rule != "" && l.Rule != "finalizers" && l.Rule != "namespace-content"
		}) {
			who := c.askers(e.UID)
			without[who]++
			if !isPerson(who) {
				notes = append(notes, fmt.Sprintf("no cause: %s: %s; %s", e.args, who, e.Ends))
			}
		}
		for i := range e.Links {
			l := &e.Links[i]
			key := fmt.Sprint(l.UID, l.Seq, l.What, l.Rule, l.Why)
			if seen[key] {
				continue
			}
			seen[key] = true
			if l.Manager != "" {
				facts++
				if who := c.wrote(c.bySeq[l.Seq]); !slices.Contains(who, l.Manager) {
					factsWrong++
					faults = append(faults, fmt.Errorf("why %s: seq %d, %s, is not by %s but %s", e.args, l.Seq, l.What,
						l.Manager, who))
				}
			}
			if l.Rule == "" {
				continue
			}
			if rules[l.Rule] == nil {
				rules[l.Rule] = &tally{}
			}
			t := rules[l.Rule]
			rule := ruleOf[l.Rule]
			if rule == nil {
				faults = append(faults, fmt.Errorf("why %s: nobody judges the rule %s", e.args, l.Rule))
				continue
			}
			err := rule(c, e, i)
			var over overtaken
			switch {
			case errors.As(err, &over):
				t.overtaken++
				notes = append(notes, fmt.Sprintf("overtaken: why %s: %s (%s): %v", e.args, l.What, l.Rule, err))
			case err == nil && l.Certain:
				t.certain++
			case err == nil:
				t.likely++
			case l.Certain:
				t.certainWrong++
				faults = append(faults, fmt.Errorf("why %s: certain (%s): %s, %q: %w", e.args, l.Rule, l.What, l.Why,
					err))
			default:
				t.likelyWrong++
				notes = append(notes, fmt.Sprintf("likely, and wrong: why %s: %s (%s) %q: %v", e.args, l.What, l.Rule,
					l.Why, err))
			}
		}
	}
	text := "| rule | certain | overtaken | wrong | likely | wrong |\n| --- | --- | --- | --- | --- | --- |\n"
	sum := tally{}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		t := rules[name]
		text += t.row("`" + name + "`")
		sum.certain, sum.likely, sum.overtaken = sum.certain+t.certain, sum.likely+t.likely, sum.overtaken+t.overtaken
		sum.certainWrong, sum.likelyWrong = sum.certainWrong+t.certainWrong, sum.likelyWrong+t.likelyWrong
	}
	text += sum.row("all")
	text += fmt.Sprintf("\n%d writers named, %d wrong; %d answers of %d with a doubt\n\n", facts, factsWrong, doubts, len(all))
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		text += fmt.Sprintf("%4d %s\n", chains[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(without)) {
		text += fmt.Sprintf("%4d deleted by %s, no cause named\n", without[name], name)
	}
	for name := range ruleOf {
		if rules[name] == nil {
			notes = append(notes, "nothing was found by "+name)
		}
	}
	slices.Sort(notes)
	text += "\n" + strings.Join(notes, "\n") + "\n"
	if 100*sum.likelyWrong > 2*(sum.likely+sum.likelyWrong) {
		faults = append(faults, fmt.Errorf("%d likely links are right, %d wrong", sum.likely, sum.likelyWrong))
	}
	return text, errors.Join(faults...)
}

func (t *tally) row(name string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d |\n", name, t.certain, t.overtaken, t.certainWrong, t.likely,
		t.likelyWrong)
}

// overtaken is the verdict that a cause was there and enough, and that somebody else was faster.
type overtaken struct{ by string }

func (o overtaken) Error() string { return o.by + " was faster" }

// who names who sent a request: a controller by its own name.
func who(r *cluster.Request) string {
	switch {
	case r.Resource == "pods/eviction":
		return "eviction"
	case r.Agent == "kube-controller-manager" && r.Controller != "":
		return r.Controller
	}
	return r.Agent
}

// isPerson reports whether that is no part of Kubernetes.
func isPerson(who string) bool {
	return slices.Contains([]string{"kubectl", "incident", "Helm", "argocd-application-controller"}, who)
}

// requests returns those of which one wrote a line's version.
func (c *court) requests(l *invariant.Line) []*cluster.Request {
	resource := l.Resource
	if l.Group != "" {
		resource += "." + l.Group
	}
	isNew := l.Type == invariant.Added && l.Origin == invariant.FromWatch
	return c.writes.By(cluster.Version{UID: l.UID, Number: l.ResourceVersion}, resource, l.Namespace, l.Name, isNew)
}

// wrote returns the managers that may have written a line's version.
func (c *court) wrote(l *invariant.Line) (all []string) {
	for _, r := range c.requests(l) {
		all = append(all, nameOf(r))
	}
	return all
}

// by returns who wrote a line's version, "" where the audit log does not tell.
func (c *court) by(l *invariant.Line) string {
	found := map[string]bool{}
	for _, r := range c.requests(l) {
		found[who(r)] = true
	}
	return strings.Join(sorted(found), " or ")
}

// asked returns the line at which an object's deletion was asked for: its first one with a deletionTimestamp, else that
// of the deletion; nil where there is none.
func (c *court) asked(uid string) *invariant.Line {
	for _, v := range c.versions[uid] {
		if value(c.object(v), "/metadata/deletionTimestamp") != nil || v.Type == invariant.Deleted {
			return v
		}
	}
	return nil
}

// askers returns who asked first for an object's deletion; "nobody" where there was no request. Kubelets end what is
// being deleted.
func (c *court) askers(uid string) string {
	if l := c.asked(uid); l != nil && l.Origin == invariant.FromWatch {
		found := map[string]bool{}
		for _, r := range c.requests(l) {
			if (strings.HasPrefix(r.Verb, "delete") || r.Resource == "pods/eviction") && r.Agent != "kubelet" {
				found[who(r)] = true
			}
		}
		if len(found) > 0 {
			return strings.Join(sorted(found), " or ")
		}
	}
	if of := c.removed[uid]; len(of) > 0 {
		return who(of[0])
	}
	return "nobody"
}

// goneBefore reports whether an object was gone before a version of another one.
func (c *court) goneBefore(uid string, l *invariant.Line) bool {
	of := c.versions[uid]
	if len(of) == 0 || of[len(of)-1].Type != invariant.Deleted {
		return false
	}
	d := of[len(of)-1]
	if d.Origin != invariant.FromWatch || l.Origin != invariant.FromWatch {
		by, own := c.removed[uid], c.removed[l.UID]
		return d.Seq < l.Seq || len(by) > 0 && len(own) > 0 && by[0].Received.Before(own[0].Answered)
	}
	return revision(d) < revision(l)
}

func revision(l *invariant.Line) uint64 {
	n, _ := strconv.ParseUint(l.ResourceVersion, 10, 64)
	return n
}

// change returns the last two versions of an object that differ in a field, of those before a version of another one.
func (c *court) change(uid, field string, upTo *invariant.Line) (before, now *invariant.Line) {
	var was *invariant.Line
	for _, v := range c.versions[uid] {
		if v.Object == nil || v.Type == invariant.Deleted || upTo != nil && revision(v) > revision(upTo) {
			continue
		}
		if was != nil && !same(value(c.object(was), field), value(c.object(v), field)) {
			before, now = was, v
		}
		was = v
	}
	return before, now
}

// at returns an object as it was at a version of another one.
func (c *court) at(uid string, l *invariant.Line) (last map[string]any) {
	for _, v := range c.versions[uid] {
		if revision(v) <= revision(l) && v.Object != nil {
			last = c.object(v)
		}
	}
	return last
}

// reached says how far a chain goes.
func (c *court) reached(e *explained) string {
	if len(e.Links) == 0 {
		return "no link"
	}
	last := &e.Links[len(e.Links)-1]
	l := c.bySeq[last.Seq]
	by := c.by(l)
	if strings.HasPrefix(last.What, "delet") || last.What == "gone" || last.What == "being deleted" {
		by = c.askers(last.UID)
	}
	switch {
	case last.Rule == "" && isPerson(by):
		return "the first cause, somebody's request"
	case e.Ends == "":
		return "the first cause, what " + last.Rule + " says"
	}
	return "ends at " + by + ": " + strings.NewReplacer(last.Name, "NAME").Replace(e.Ends)
}
