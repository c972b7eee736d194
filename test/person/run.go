package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

// run is one API server with a level of its audit log.
type run struct {
	binary, level string
	writes        int
	seed          uint64
	keep          string
	out           io.Writer

	dir     string
	said    bytes.Buffer // what the program has written to stdout and stderr
	unnamed []string     // lines for which nobody is named, as the docs say
	result  result
}

// result is what came of a run.
type result struct {
	version, level string
	wrote, lines   int
	counts         map[string]*[4]int // by what was done
	matches        map[string]int
	faults         []string
}

const policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: None, verbs: [get, list, watch]}\n- {level: %s}\n"

// widgets is what defines the custom resource.
func widgets() tree {
	anything := tree{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": tree{"name": "widgets.person.kubejournal.test"},
		"spec": tree{
			"group": "person.kubejournal.test", "scope": "Namespaced",
			"names": tree{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{tree{
				"name": "v1", "served": true, "storage": true,
				"schema": tree{"openAPIV3Schema": tree{"type": "object", "properties": tree{
					"spec":   tree{"type": "object", "properties": tree{"replicas": tree{"type": "integer"}}},
					"status": anything,
				}}},
				"subresources": tree{"status": tree{}, "scale": tree{
					"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
				}},
			}},
		},
	}
}

func (r *run) do(ctx context.Context, v cluster.Variant) (err error) {
	binaries, err := v.Build(ctx)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Binaries: binaries, Audit: fmt.Sprintf(policy, r.level)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if r.dir, err = os.MkdirTemp("", "kubejournal-person-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	r.result = result{level: r.level, counts: map[string]*[4]int{}, matches: map[string]int{}}
	if r.result.version, err = c.Version(ctx); err != nil {
		return err
	}
	t := &town{ctx: ctx, host: c.RESTConfig().Host, secret: workload.SecretValue, known: map[key]tree{}}
	users, err := r.users(ctx, c, t)
	if err != nil {
		return err
	}
	if err := r.prepare(users[0]); err != nil {
		return err
	}
	daemon, err := r.record(ctx, c)
	if err != nil {
		return err
	}
	defer daemon.End()
	began := time.Now()
	var wait sync.WaitGroup
	for _, u := range users {
		wait.Go(func() {
			for t.goesOn(r.writes) {
				u.act()
			}
		})
	}
	wait.Wait()
	if t.err != nil {
		return t.err
	}
	if err := r.settle(ctx, daemon, users[0]); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s, %s: %d writes in %s\n", r.result.version, r.level, t.wrote,
		time.Since(began).Round(time.Second))
	return r.judge(ctx, c, t)
}

// goesOn reports whether there are fewer writes than asked for.
func (t *town) goesOn(writes int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrote < writes && t.err == nil && t.ctx.Err() == nil
}

func (r *run) users(ctx context.Context, c *cluster.Cluster, t *town) (users []*user, err error) {
	everything := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	for i, name := range []string{"alice", "bob", "carol", "dave", "erin"} {
		path, err := c.User(ctx, name, everything)
		if err != nil {
			return nil, err
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, err
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, err
		}
		random := rand.New(rand.NewPCG(r.seed, uint64(i)))
		users = append(users, &user{town: t, name: name, client: client, rand: random})
	}
	return users, nil
}

// prepare makes what is there before the first line.
func (r *run) prepare(u *user) error {
	send := func(path string, o tree) error {
		q := &request{}
		_, code, err := u.exchange(u.ctx, q, "POST", path, "", asJSON, o)
		if err == nil && code != 201 {
			err = fmt.Errorf("%s is answered with %d", path, code)
		}
		return err
	}
	err := send("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
	for _, name := range []string{"shop", "stock"} {
		o := tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": name}}
		err = errors.Join(err, send("/api/v1/namespaces", o))
	}
	if err != nil {
		return err
	}
	return program.Eventually(u.ctx, time.Minute, "the custom resource is there", func() error {
		_, code, err := u.exchange(u.ctx, &request{}, "GET", kinds[4].path("shop", ""), "", asJSON, nil)
		if err == nil && code != 200 {
			err = fmt.Errorf("%d", code)
		}
		return err
	})
}

// record starts the program.
func (r *run) record(ctx context.Context, c *cluster.Cluster) (*program.Process, error) {
	config := "cluster: test\noutput: {path: journal.jsonl}\ncheckpoint: {path: checkpoint.db}\nlisten: '127.0.0.1:0'\nresources:\n" +
		"- {resource: namespaces, changes: true}\n"
	for _, k := range kinds {
		config += fmt.Sprintf("- {resource: %s, group: %q, changes: true}\n", k.resource, k.group)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "kubejournal.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(r.binary, "run", "--config", "kubejournal.yaml", "--kubeconfig", c.Kubeconfig())
	cmd.Dir = r.dir
	daemon, err := program.Start(cmd, filepath.Join(r.dir, "kubejournal.log"))
	if err != nil {
		return nil, err
	}
	err = daemon.Wait(ctx, time.Minute, "it is ready", func() error { return daemon.Ready(ctx) })
	if err != nil {
		daemon.End()
	}
	return daemon, err
}

// settle waits until the journal has the last line of each kind.
func (r *run) settle(ctx context.Context, daemon *program.Process, u *user) error {
	for _, k := range append(slices.Clone(kinds), namespaceKind) {
		ns := "shop"
		if k.resource == "namespaces" {
			ns = ""
		}
		var q *request
		for range 3 { // a user agent decides
			q = u.begin("create", k, ns, "the-last")
			u.send(q, "POST", k.path(ns, ""), "", asJSON, u.make(k, "the-last", q))
			if q.ok() {
				break
			}
		}
		err := daemon.Wait(ctx, time.Minute, "the last of "+k.resource+" is there", func() error {
			content, err := os.ReadFile(filepath.Join(r.dir, "journal.jsonl"))
			if err == nil && !bytes.Contains(content, []byte(`"uid":"`+q.uid+`"`)) {
				err = errors.New("not yet")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ask runs the program.
func (r *run) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr, cmd.Env = r.dir, &stderr, program.Environ(r.dir)
	out, err := cmd.Output()
	r.said.Write(out)
	r.said.Write(stderr.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", args, err, stderr.Bytes())
	}
	return out, nil
}

func (r *run) judge(ctx context.Context, c *cluster.Cluster, t *town) error {
	out, err := r.ask(ctx, "audit", "--journal", "journal.jsonl", c.AuditLog())
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s", out)
	if out, err = r.ask(ctx, "history", "--journal", "journal.jsonl", "--all", "-o", "json"); err != nil {
		return err
	}
	court := t.court()
	for text := range bytes.Lines(out) {
		e, err := parse(text)
		if err != nil {
			return err
		}
		made, ok := court.of(&e)
		if !ok {
			continue
		}
		r.count(&e, made, t.requests)
	}
	r.result.wrote = t.wrote
	if err := r.secrets(c); err != nil {
		return err
	}
	return r.leave(c, t)
}

// leave leaves the journal, the log and what is true in a folder, where it is asked to or where something is wrong.
func (r *run) leave(c *cluster.Cluster, t *town) error {
	to := filepath.Join(r.keep, r.result.version+"-"+r.level)
	if r.keep == "" {
		if len(r.result.faults) == 0 {
			return nil
		}
		dir, err := os.MkdirTemp("", "kubejournal-person-kept-")
		if err != nil {
			return err
		}
		to = filepath.Join(dir, filepath.Base(to))
	}
	var truth bytes.Buffer
	for _, q := range t.requests {
		fmt.Fprintf(&truth, "%s %+v\n", q.id(), *q)
	}
	log, err := os.ReadFile(c.AuditLog())
	if err := errors.Join(err, os.RemoveAll(to), os.CopyFS(to, os.DirFS(r.dir))); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "the journal, the log and what is true are in %s\n", to)
	lines := strings.Join(append(r.unnamed, r.result.faults...), "\n")
	return errors.Join(
		os.WriteFile(filepath.Join(to, "audit.log"), log, 0o600),
		os.WriteFile(filepath.Join(to, "truth.txt"), truth.Bytes(), 0o600),
		os.WriteFile(filepath.Join(to, "unnamed.txt"), []byte(lines+"\n"), 0o600),
	)
}

func (r *run) count(e *entry, made truth, all []*request) {
	is := made.judge(e)
	if beside := made.beside(e, all); is == nobody && beside != "" {
		made.what = beside
	}
	switch {
	case len(made.makers) == 0:
		made.what = "not known to the test"
	case len(made.makers) > 1 && !silent[made.what]:
		made.what = "two at once delete or evict it"
	case len(made.makers) == 1 && made.makers[0].code == 0:
		made.what = "given up by the client"
	}
	counts := r.result.counts[made.what]
	if counts == nil {
		counts = new([4]int)
		r.result.counts[made.what] = counts
	}
	counts[is]++
	r.result.lines++
	if is == right {
		r.result.matches[e.Person.Match]++
	}
	missed := is == nobody && r.level == "RequestResponse"
	bad := is == wrong || is == unknown && e.Person != nil || missed && !silent[made.what]
	if !bad && !missed {
		return
	}
	var by []string
	for _, q := range made.makers {
		by = append(by, fmt.Sprintf("%s %s (%s, %d)", q.id(), q.user, q.what, q.code))
	}
	named := "nobody"
	if e.Person != nil {
		named = fmt.Sprintf("%s %s as %q by %s", e.Person.AuditID, e.Person.User, e.Person.Impersonated, e.Person.Match)
	}
	text := fmt.Sprintf("seq %d, %s %s %s/%s at %s: made by %v, named is %s", e.Seq, e.Type, e.Resource, e.Namespace, e.Name,
		e.ResourceVersion, by, named)
	if bad {
		r.result.faults = append(r.result.faults, text)
	} else {
		r.unnamed = append(r.unnamed, made.what+": "+text)
	}
}

// silent is what nobody is named for at RequestResponse, as the docs say.
var silent = map[string]bool{
	"two at once delete or evict it":                                          true,
	"beside an eviction that was refused":                                     true,
	"beside one without effect in the same moment":                            true,
	"beside one that was given up":                                            true,
	"given up by the client":                                                  true,
	"deletecollection of another object of this name":                         true,
	"the end of a deletion (deletecollection of another object of this name)": true,
}

var isSecret = regexp.MustCompile(regexp.QuoteMeta(workload.SecretValue))

// secrets looks for the values of Secrets in what the program has written.
func (r *run) secrets(c *cluster.Cluster) error {
	is := func(text []byte) bool {
		encoded := base64.StdEncoding.EncodeToString([]byte(workload.SecretValue))
		return isSecret.Match(text) || bytes.Contains(text, []byte(encoded[:len(encoded)-4]))
	}
	log, err := os.ReadFile(c.AuditLog())
	if err != nil {
		return err
	}
	if is(log) != (r.level != "Metadata") {
		r.result.faults = append(r.result.faults, "the audit log has not what it should: the test looks for something else")
	}
	if is(r.said.Bytes()) {
		r.result.faults = append(r.result.faults, "a Secret's value in an output")
	}
	files, err := os.ReadDir(r.dir)
	for _, f := range files {
		content, e := os.ReadFile(filepath.Join(r.dir, f.Name()))
		if err = errors.Join(err, e); is(content) {
			r.result.faults = append(r.result.faults, "a Secret's value in "+f.Name())
		}
	}
	return err
}

// report is of all runs.
type report struct{ runs []result }

// print prints the tables, and reports whether all is as it should be.
func (p *report) print(out io.Writer) (good bool) {
	good = true
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "server\tlevel\twrites\tlines\tright\texact\tuid\tname\tnobody\twrong")
	for _, r := range p.runs {
		var sum [4]int
		for _, n := range r.counts {
			for i := range sum {
				sum[i] += n[i]
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.version, r.level, r.wrote, r.lines, sum[right],
			r.matches["exact"], r.matches["uid"], r.matches["name"], sum[nobody], sum[wrong])
		good = good && len(r.faults) == 0
	}
	fmt.Fprint(w, "\nwhat was done, and for how many of its lines somebody is named")
	var kinds []string
	for _, r := range p.runs {
		fmt.Fprintf(w, "\t%s %s", r.version, r.level)
		for what := range r.counts {
			kinds = append(kinds, what)
		}
	}
	fmt.Fprintln(w)
	slices.Sort(kinds)
	for _, what := range slices.Compact(kinds) {
		fmt.Fprint(w, what)
		for _, r := range p.runs {
			n := r.counts[what]
			if n == nil {
				n = new([4]int)
			}
			fmt.Fprintf(w, "\t%d of %d", n[right], n[right]+n[nobody]+n[wrong]+n[unknown])
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // stdout
	for _, r := range p.runs {
		for i, f := range r.faults {
			if i == 40 {
				fmt.Fprintf(out, "%s, %s: and %d more\n", r.version, r.level, len(r.faults)-i)
				break
			}
			fmt.Fprintf(out, "%s, %s: %s\n", r.version, r.level, f)
		}
	}
	return good
}
