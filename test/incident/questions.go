package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// question is one that a person has after the incident, and what the answer has to be.
type question struct {
	file, args string // as a shell takes them
	status     int
	check      func(*reply) error
}

// answered is the status of an answer: 0, or 3 where a stream that was asked about has not been confirmed for all of
// the time.
const answered = -1

// reply is an answer as a program gets it.
type reply struct{ stdout, stderr string }

// questions are asked while kubejournal runs.
func (x *incident) questions(lines []invariant.Line, writes *cluster.Writes) []question {
	bad, drained := x.ledger.step("A bad image"), x.ledger.step("A node is drained")
	argo, out := x.ledger.step("Argo CD"), x.ledger.step("The network is out")
	minute := during(bad.From, bad.From.Add(time.Minute))
	return []question{
		{"before.txt", "history " + during(bad.Until.Add(-2*time.Minute), bad.Until), answered, x.rows([]expected{
			{"Somebody edits", `MODIFIED configmaps shop/web-settings kubectl-edit data\["log.level"\] info→debug`},
			{"Somebody else", `MODIFIED configmaps shop/web-settings kubectl-patch data.timeout 30s→3s`},
			{"It gets a label",
				`MODIFIED configmaps shop/web-settings kubectl-label \+metadata.labels {"tier":"front"}`},
			{"It gets a label", `MODIFIED configmaps shop/web-settings - -metadata.labels`},
			{"web is scaled from 3", `MODIFIED deployments.apps shop/web kubectl/scale spec.replicas 3→5`},
			{"An autoscaler", `ADDED horizontalpodautoscalers.autoscaling shop/web kubectl-autoscale`},
			{"An autoscaler", `MODIFIED deployments.apps shop/web kube-controller-manager/scale spec.replicas 5→6`},
			{"The password",
				`MODIFIED secrets shop/db-login kubectl-client-side-apply data.password changed \(redacted\)`},
			{"The password",
				`MODIFIED configmaps shop/web-banner kubectl-client-side-apply data.text .*Monday.*→.*Tuesday`},
			{"An intern", `ADDED rolebindings.rbac.authorization.k8s.io shop/intern kubectl-create`},
			{"A bad image", `MODIFIED deployments.apps shop/web kubectl-set .*web:1.4.0→.*web:1.5.0-bad`},
		}, false)},
		{"image.txt", "history deploy/web -n shop --field 'spec.template.spec.containers[*].image'", answered,
			x.rows([]expected{
				{"The shop", `ADDED deployments.apps shop/web kubectl-client-side-apply .*\+spec.*image ` +
					`registry.example/web:1.4.0`},
				{"A bad image", `MODIFIED deployments.apps shop/web kubectl-set .*:1.4.0→.*:1.5.0-bad`},
				{"Meanwhile", `MODIFIED deployments.apps shop/web kubectl .*:1.5.0-bad→.*:1.4.0`},
				{"and a second", `MODIFIED deployments.apps shop/web kubectl-set .*:1.4.0→.*:1.5.1-bad`},
				{"Argo CD", `MODIFIED deployments.apps shop/web argocd .*:1.5.1-bad→.*:1.5.2`},
			}, true)},
		{"between.txt", "get cm/web-settings -n shop -o yaml --at " + moment(x.between), 0, func(r *reply) error {
			return agree("kubectl", x.settings, r.stdout)
		}},
		{"failed.txt", "history pods -n shop --field status.phase " + minute, answered, func(r *reply) error {
			failed := func(r row) bool { return strings.Contains(r.what, "status.phase Pending→Failed") }
			return agree("the kubelet", podsThat(writes, bad.From, "/status/phase", "Failed"), names(r, failed))
		}},
		{"pulled.txt", "history events -n shop --by kubelet " + minute, answered, func(r *reply) error {
			failed := func(r row) bool { return strings.Contains(r.what, "Failed to pull image") }
			want := podsThat(writes, bad.From, waiting, "ErrImagePull")
			for i, pod := range want {
				want[i] = pod + ".failed" // the Event
			}
			return agree("the kubelet", want, names(r, failed))
		}},
		{"diff.txt", "diff -n shop --stat --since " + moment(bad.From) + " --until " + moment(drained.Until),
			1, func(r *reply) error {
				return errors.Join(has(r.stdout, `(?m)^deployment.apps shop/web +(changed|modified) `,
					`(?m)^job.batch shop/migrate +added `),
					has(r.stderr, `came and went in between: [0-9]+ pods \(`))
			}},
		{"deleted.txt", "get '*' -n preview --deleted", answered, func(r *reply) error {
			return has(r.stdout, `(?m)^- +namespace/preview `, `(?m)^preview +configmap/web-settings `,
				`(?m)^preview +secret/db-login `, `(?m)^preview +deployment.apps/web `, `(?m)^preview +pod/web-`)
		}},
		{"blame.txt", "blame deploy/web -n shop --spec", answered, x.blamed([]expected{
			{"The shop", `kubectl-client-side-apply creationTimestamp: `},
			{"web is scaled to 2", `kube-controller-manager/scale replicas: 6`},
			{"web is restarted", `kubectl-rollout kubectl.kubernetes.io/restartedAt: `},
			{"Argo CD", `argocd - image: registry.example/web:1.5.2`},
		})},
		{"settings.txt", "blame cm/web-settings -n shop", answered, x.blamed([]expected{
			{"Somebody edits", `kubectl-edit log.level: debug`},
			{"The API server", `in the gap timeout: 10s`},
			{"Two write", `second turn: "3"`},
		})},
		{"gap.txt", "history cm/web-banner -n shop -p", answered, func(r *reply) error {
			return errors.Join(x.inGap(lines), has(r.stdout, `(?m)^[0-9:.]+ +GAP +configmaps +- +- +[0-9ms]+: Expired`,
				`(?m)^[0-9:.]+ +DELETED +configmaps +shop/web-banner +- +relist.*\n-- deleted between [0-9:]{8} and `+
					`[0-9:]{8}$`))
		}},
		{"in-gap.txt", "get cm/web-banner -n shop --at " + moment(out.Until), 3, func(r *reply) error {
			return errors.Join(has(r.stdout, `(?m)^web-banner `),
				has(r.stderr, `not covered: configmaps shop/web-banner .*Expired`))
		}},
		{"never.txt", "get cm/web-setting -n shop", 1, func(r *reply) error {
			return errors.Join(agree("nothing", "", r.stdout),
				has(r.stderr, `no line about configmaps of the name "web-setting".*did you mean web-settings\?`))
		}},
		{"related.txt", "history deploy/web -n shop --related " + during(argo.From, argo.Until), answered,
			x.related(lines, argo)},
		{"coverage.txt", "coverage configmaps", 0, func(r *reply) error {
			return has(r.stdout, `(?m)^configmaps `, `Expired`)
		}},
		{"verify.txt", "index --verify", 0, func(r *reply) error {
			return has(r.stdout, `^[0-9]+ lines, none missing`)
		}},
	}
}

// related checks that history shows what a Deployment owns, and the Events about all of it, in the order of the
// journal.
func (x *incident) related(lines []invariant.Line, s *Step) func(*reply) error {
	return func(r *reply) error {
		family := map[string]bool{}
		for i := range lines {
			if l := &lines[i]; l.Resource == "deployments" && l.Namespace == shop && l.Name == "web" {
				family[l.UID] = true
			}
		}
		for range 2 { // ReplicaSets, then pods
			for i := range lines {
				var o metav1.PartialObjectMetadata
				if l := &lines[i]; l.Object != nil && json.Unmarshal(l.Object, &o) == nil {
					family[l.UID] = family[l.UID] || slices.ContainsFunc(o.OwnerReferences,
						func(ref metav1.OwnerReference) bool { return family[string(ref.UID)] })
				}
			}
		}
		var want, got []uint64
		for i := range lines {
			l := &lines[i]
			received, err := time.Parse(time.RFC3339Nano, l.Time)
			if err != nil {
				return err
			}
			in := !received.Before(s.From.Truncate(time.Millisecond)) &&
				!received.After(s.Until.Truncate(time.Millisecond))
			if in && (family[l.UID] || l.Event != nil && family[l.Event.Regarding.UID]) {
				want = append(want, l.Seq)
			}
		}
		all, status, err := x.piped("history deploy/web -n shop --related --all -o json " + during(s.From, s.Until))
		if err != nil || !isStatus(status, answered) {
			return fmt.Errorf("exit status %d, %w", status, err)
		}
		found, err := invariant.Parse("the history", 1, []byte(all.stdout))
		if err != nil {
			return err
		}
		for i := range found {
			if found[i].UID != "" {
				got = append(got, found[i].Seq)
			}
		}
		return errors.Join(agree("the journal", want, got), x.rows([]expected{
			{"Argo CD", `MODIFIED deployments.apps shop/web argocd .*:1.5.1-bad→.*:1.5.2`},
		}, false)(r),
			has(r.stdout, `ADDED +replicasets.apps +shop/web-`, `ADDED +pods +shop/web-.* kube-controller-manager`,
				`ADDED +events +shop/web\..* ScalingReplicaSet Deployment/web: `,
				`ADDED +events +shop/web-.* SuccessfulCreate ReplicaSet/web-`,
				`ADDED +events +shop/web-.* Scheduled Pod/web-`))
	}
}

// inGap checks that the gap in which the banner was deleted begins before that and ends after it.
func (x *incident) inGap(lines []invariant.Line) error {
	requests, err := x.cluster.Requests()
	if err != nil {
		return err
	}
	d := slices.IndexFunc(requests, func(r cluster.Request) bool {
		return r.Verb == "delete" && r.Resource == "configmaps" && r.Name == "web-banner"
	})
	g := slices.IndexFunc(lines, func(l invariant.Line) bool {
		return l.Type == invariant.Gap && l.Stream == "configmaps"
	})
	if d < 0 || g < 0 {
		return errors.New("nothing was deleted in a gap")
	}
	var from time.Time
	if err := json.Unmarshal(lines[g].Raw("fromTime"), &from); err != nil {
		return err
	}
	until, err := time.Parse(time.RFC3339Nano, lines[g].Time)
	if deleted := requests[d]; err == nil && (from.After(deleted.Answered) || until.Before(deleted.Received)) {
		err = fmt.Errorf("the gap is from %s to %s, the deletion at %s", clock(from), clock(until),
			clock(deleted.Received))
	}
	return err
}

// note takes down how an object is when the journal has that, so that it can be asked for later.
func (x *incident) note(ctx context.Context) error {
	o := object{configMaps, shop, "web-settings"}
	got, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	err = x.daemon.Wait(ctx, patience, "the journal has the config map", func() error {
		lines, err := x.read()
		written := func(l invariant.Line) bool { return l.ResourceVersion == got.GetResourceVersion() }
		if err == nil && !slices.ContainsFunc(lines, written) {
			err = errors.New("it has not")
		}
		return err
	})
	x.between = time.Now()
	if err == nil {
		x.settings, err = x.kubectl(ctx, "get configmap web-settings -n shop -o yaml")
	}
	return err
}

// remember keeps the objects that will be deleted, as they are.
func (x *incident) remember(ctx context.Context) error {
	for _, o := range []object{{configMaps, preview, "web-settings"}, {deployments, preview, "web"}} {
		got, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		x.deleted = append(x.deleted, deletedObject{o, got})
	}
	return nil
}

type deletedObject struct {
	object
	was *unstructured.Unstructured
}

const preview = "preview"

// giveBack restores the namespace that was deleted, and compares what is there again. Its Secret cannot be given back.
func (x *incident) giveBack(ctx context.Context) error {
	const args = "get '*' -n preview --deleted --clean"
	r, status, err := x.piped(args)
	if err != nil {
		return err
	}
	err = has(r.stderr, `secret preview/db-login: refused: redacted: data.password, data.user`,
		`left out, owned by ReplicaSet web-.*: pod preview/web-`,
		`left out, made by the root CA certificate publisher: configmap preview/kube-root-ca.crt`)
	if status != 1 {
		err = errors.Join(err, fmt.Errorf("exit status %d", status))
	}
	if err != nil {
		return fmt.Errorf("kubejournal %s: %w\n%s%s", args, err, r.stdout, r.stderr)
	}
	shown, err := x.shell(`"$KUBEJOURNAL" ` + args + ` | "$KUBECTL" apply -f -`).CombinedOutput()
	err = errors.Join(err, x.keep("restored.txt",
		fmt.Sprintf("$ kubejournal %s | kubectl apply -f -\n%s", args, shown)), workload.Leak("restored.txt", shown))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, shown)
	}
	for _, d := range x.deleted {
		is, getErr := x.in(d.object).Get(ctx, d.name, metav1.GetOptions{})
		if getErr != nil {
			return errors.Join(err, getErr)
		}
		for _, field := range []string{"spec", "data"} {
			err = errors.Join(err, agree("the server", d.was.Object[field], is.Object[field]))
		}
		err = errors.Join(err, agree("the server", d.was.GetLabels(), is.GetLabels()))
	}
	return err
}
