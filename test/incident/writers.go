package main

import (
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/program"
)

// answer is what a line says of its writer, held against the truth.
type answer int

const (
	right answer = iota
	absent
	wrong
	answers int = iota
)

// judged is a line with the requests of which one wrote its version.
type judged struct {
	*invariant.Line
	writers []*cluster.Request
	// key is the line's origin and type, and the verb, resource and writer of the request; where there is none, a
	// hyphen for each.
	key                        string
	manager, subresource, when answer
}

// judge holds what a line says of its writer against the requests. A manager without a subresource says that there was
// none.
func judge(l *invariant.Line, writers []*cluster.Request) judged {
	j := judged{Line: l, writers: writers, key: l.Origin + " " + l.Type + " - - -", manager: wrong, subresource: wrong,
		when: wrong}
	at, err := time.Parse(time.RFC3339, l.WrittenAt)
	for i, r := range writers {
		manager, subresource := r.Manager()
		if i == 0 {
			j.key = strings.Join([]string{l.Origin, l.Type, r.Verb, r.Resource, nameOf(r)}, " ")
		}
		if l.Manager == manager {
			j.manager = right
			if l.Subresource == subresource {
				j.subresource = right
			}
		}
		// Of an Event that a list shows, it is the reporter's time, who writes it later.
		reported := l.Event != nil && l.Manager == ""
		if err == nil && (reported || !at.Before(r.Received.Truncate(time.Second))) && !at.After(r.Answered) {
			j.when = right
		}
	}
	if l.Manager == "" {
		j.manager, j.subresource = absent, absent
	}
	if l.WrittenAt == "" {
		j.when = absent
	}
	return j
}

func judgeAll(lines []invariant.Line, writes *cluster.Writes) (all []judged) {
	for i := range lines {
		l, resource := &lines[i], lines[i].Resource
		if l.Group != "" {
			resource += "." + l.Group
		}
		if l.Origin != "" {
			v, isNew := cluster.Version{UID: l.UID, Number: l.ResourceVersion},
				l.Type == invariant.Added && l.Origin == invariant.FromWatch
			all = append(all, judge(l, writes.By(v, resource, l.Namespace, l.Name, isNew)))
		}
	}
	return all
}

// name is a writer as tail shows it.
func name(manager, subresource string) string {
	if subresource != "" {
		manager += "/" + subresource
	}
	return cmp.Or(manager, "-")
}

func nameOf(r *cluster.Request) string { return name(r.Manager()) }

func (j *judged) wrong() bool { return j.manager == wrong || j.subresource == wrong || j.when == wrong }

// count is how often which answer is given to which question.
type count struct {
	lines                      int
	manager, subresource, when [answers]int
}

func (c *count) add(j *judged) {
	c.lines++
	c.manager[j.manager]++
	c.subresource[j.subresource]++
	c.when[j.when]++
}

func (c *count) row(name string) string {
	row := fmt.Sprintf("| %s | %d", name, c.lines)
	for _, of := range [][answers]int{c.manager, c.subresource, c.when} {
		for _, n := range of {
			row += fmt.Sprintf(" | %d", n)
		}
	}
	return row + " |\n"
}

// table counts the answers for each kind of writer.
func table(all []judged) string {
	total, kinds := new(count), make(map[string]*count)
	for i := range all {
		part := strings.Fields(all[i].key)
		kind := strings.Join([]string{part[0], part[1], part[2], part[4]}, " | ")
		if kinds[kind] == nil {
			kinds[kind] = new(count)
		}
		kinds[kind].add(&all[i])
		total.add(&all[i])
	}
	text := "| origin | type | request | writer | lines | manager right | absent | wrong | subresource right | " +
		"absent | wrong | writtenAt right | absent | wrong |\n" + strings.Repeat("| --- ", 14) + "|\n"
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		text += kinds[kind].row(kind)
	}
	return text + total.row("all | | | ")
}

// ways are the ways to write that the story has: patterns of a key. Of those that are known, the journal has to say who
// wrote.
var ways = []struct {
	name, pattern string
	known         bool
}{
	{"`kubectl apply`, new", "watch ADDED create configmaps kubectl-client-side-apply", true},
	{"`kubectl apply`", "watch MODIFIED patch configmaps kubectl-client-side-apply", true},
	{"`kubectl apply --server-side`", "watch MODIFIED patch deployments.apps argocd", true},
	{"`kubectl edit`", "watch MODIFIED patch configmaps kubectl-edit", true},
	{"`kubectl patch`", "watch MODIFIED patch configmaps kubectl-patch", true},
	{"`kubectl label`", "watch MODIFIED patch configmaps kubectl-label", false},
	{"`kubectl set image`", "watch MODIFIED patch deployments.apps kubectl-set", true},
	{"`kubectl rollout restart`", "watch MODIFIED patch deployments.apps kubectl-rollout", true},
	{"`kubectl scale`", "watch MODIFIED * deployments.apps/scale kubectl/scale", true},
	{"horizontal pod autoscaler", "watch MODIFIED * deployments.apps/scale kube-controller-manager/scale", true},
	{"Deployment controller, status",
		"watch MODIFIED update deployments.apps/status kube-controller-manager/status", true},
	{"Deployment controller, ReplicaSet", "watch MODIFIED update replicasets.apps kube-controller-manager", true},
	{"scheduler binds a pod", "watch MODIFIED create pods/binding kube-scheduler/binding", false},
	{"kubelet, status", "watch MODIFIED patch pods/status kubelet/status", true},
	{"two writers within a second, one", "watch MODIFIED patch configmaps first", true},
	{"two writers within a second, the other", "watch MODIFIED patch configmaps second", true},
	{"finalizer added, removed", "watch MODIFIED patch configmaps operator", false},
	{"finalizer removed, and gone", "watch DELETED patch configmaps operator", false},
	{"eviction", "watch MODIFIED create pods/eviction kubectl/eviction", false},
	{"deletion of a pod asked for", "watch MODIFIED delete pods *", false},
	{"pod gone", "watch DELETED delete pods *", false},
	{"`kubectl delete`", "watch DELETED delete configmaps kubectl", false},
	{"made anew", "watch ADDED create configmaps kubectl-create", true},
	{"deleted with its namespace", "watch DELETED deletecollection configmaps kube-controller-manager", false},
	{"made in an outage, found by comparison", "relist ADDED create configmaps kubectl-create", false},
	{"changed in an outage, found by comparison", "relist MODIFIED patch configmaps kubectl-patch", false},
}

// show makes a table of the ways to write, with the first line of each that says something, as kubejournal tail shows
// it.
func (x *incident) show(all []judged) (text string, faults []error) {
	text = "| way to write | lines | truth: who | the journal | truth: when | writtenAt | who right | absent | wrong " +
		"| tail: WHO | tail: WHAT |\n" +
		strings.Repeat("| --- ", 11) + "|\n"
	for _, way := range ways {
		parts := strings.Fields(way.pattern)
		of := slices.DeleteFunc(slices.Clone(all), func(j judged) bool {
			return slices.ContainsFunc([]int{0, 1, 2, 3, 4}, func(i int) bool {
				if parts[i] == "*" {
					return false
				}
				match, err := path.Match(parts[i], strings.Fields(j.key)[i])
				return err != nil || !match
			})
		})
		if len(of) == 0 {
			faults = append(faults, fmt.Errorf("%s: there is no such line", way.name))
			continue
		}
		var c count
		for i := range of {
			c.add(&of[i])
		}
		if way.known && c.manager[right] == 0 {
			faults = append(faults, fmt.Errorf("%s: of %d lines none says who wrote", way.name, len(of)))
		}
		j := of[max(0, slices.IndexFunc(of, func(j judged) bool { return j.manager != absent }))]
		who, what, err := x.tail(j.Line)
		if err != nil {
			return text, append(faults, err)
		}
		r := j.writers[0]
		text += fmt.Sprintf("| %s | %d | %s | %s | %s to %s | %s | %d | %d | %d | %s | %s |\n", way.name, len(of),
			nameOf(r), name(j.Manager, j.Subresource), clock(r.Received), clock(r.Answered), cmp.Or(j.WrittenAt, "-"),
			c.manager[right], c.manager[absent], c.manager[wrong], who, strings.ReplaceAll(what, "|", "\\|"))
	}
	return text, faults
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// tail returns what kubejournal tail shows of a line.
func (x *incident) tail(l *invariant.Line) (who, what string, err error) {
	seq := fmt.Sprint("seq:", l.Seq)
	cmd := exec.Command(x.program, "tail", "--since", seq, "--until", seq, "--no-follow", "journal.jsonl")
	cmd.Dir, cmd.Env = x.out, program.Environ(x.work, "TZ=UTC")
	shown, err := cmd.Output()
	if status, _ := statusOf(err); status == 3 { // it is the line of a gap
		err = nil
	}
	for row := range strings.Lines(string(shown)) {
		if cell := strings.Fields(row); len(cell) > 4 && cell[1] == l.Type {
			return cell[4], strings.Join(cell[5:], " "), err
		}
	}
	return "", "", fmt.Errorf("kubejournal tail shows seq %d as %q: %w", l.Seq, shown, err)
}
