package deploy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubejournal/test/invariant"
	"kubejournal/test/replicas"
	"kubejournal/test/workload"
)

// phaseWrites is how many writes are acknowledged between one thing that happens to the replicas and the next.
const phaseWrites = 50

// outOfReach is longer than a replica goes without reading or renewing a Lease that it may.
const outOfReach = 10 * time.Second

// replicated is the stateful set of the overlay, whose pods the controllers make and the node runs, while objects change.
type replicated struct {
	t         *testing.T
	n         *node
	namespace string
	workload.Author
}

// The replicas of the overlay, with the rights that it gives them, while objects change: one writes and the other follows;
// the leader is evicted, and the other one is not meanwhile; a rolling update replaces both. Nothing is lost.
func TestReplicas(t *testing.T) {
	if os.Getenv(aloneIn) == "" {
		kubejournal(t)
		alone(t)
		return
	}
	bringUp(t)
	s := theServer(t)
	runControllers(t, s)
	m := mustKustomize(t, "statefulset")
	r := &replicated{t: t, n: startNode(t, s, kubejournal(t)), namespace: m.namespace(t)}
	r.Client, r.Ledger = s.any, &workload.Ledger{Sources: workload.Sources([]workload.Entry{{Kind: workload.ConfigMaps}})}
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: replicated}}"))...)
	s.apply(t, false, m...)
	r.settled()

	writers := r.Churn(t.Context(), workload.Churn{Kinds: []workload.Kind{workload.ConfigMaps}, Namespaces: []string{"replicated"}, Name: "web", Rate: 50, Seed: 1})
	defer writers.Stop()
	r.more()
	leader, standby := r.leader()
	r.evicted(leader, standby)
	r.more()
	r.settled()
	restart := `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}` // as kubectl rollout restart
	if _, err := s.client.AppsV1().StatefulSets(r.namespace).Patch(t.Context(), "kubejournal", types.StrategicMergePatchType, []byte(restart), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.settled()
	r.more()
	writers.Stop()
	r.checkJournals()
	s.remove(t, m.ofKind("RoleBinding"))
	r.checkNobody()
}

// until waits while the node works.
func (r *replicated) until(what string, try func() error) {
	r.t.Helper()
	eventually(r.t, what, func() error {
		r.n.sync()
		return try()
	})
}

// more waits for more writes.
func (r *replicated) more() {
	r.t.Helper()
	before, _ := r.Ledger.Counts()
	r.until("writes", func() error {
		if now, _ := r.Ledger.Counts(); now < before+phaseWrites {
			return fmt.Errorf("%d of %d", now-before, phaseWrites)
		}
		return nil
	})
}

// settled waits until all replicas are ready, as the stateful set wants them now, and one may be evicted.
func (r *replicated) settled() {
	r.t.Helper()
	r.until("replicas are ready", func() error {
		set, err := r.n.s.client.AppsV1().StatefulSets(r.namespace).Get(r.t.Context(), "kubejournal", metav1.GetOptions{})
		if err != nil {
			return err
		}
		is := set.Status
		want := appsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation, Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2,
			CurrentRevision: is.UpdateRevision, UpdateRevision: is.UpdateRevision, CollisionCount: is.CollisionCount,
		}
		if diff := cmp.Diff(want, is); diff != "" {
			return errors.New(diff)
		}
		budget, err := r.n.s.client.PolicyV1().PodDisruptionBudgets(r.namespace).Get(r.t.Context(), "kubejournal", metav1.GetOptions{})
		if err == nil && (budget.Status.DisruptionsAllowed != 1 || len(budget.Status.DisruptedPods) > 0) {
			err = fmt.Errorf("%+v", budget.Status)
		}
		return err
	})
}

// leader waits until one of the pods writes and the other says that it follows that one.
func (r *replicated) leader() (leader, standby corev1.Pod) {
	r.t.Helper()
	r.until("a leader and a standby", func() error {
		pods, err := r.n.s.client.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		leaders, standbys := 0, 0
		for _, pod := range pods.Items {
			process := r.n.pods[pod.UID].process
			leads, err := process.Leads(r.t.Context())
			if err != nil {
				return err
			}
			if leads {
				leader = pod
				leaders++
				continue
			}
			standby = pod
			standbys++
			if err := process.watching(); err != nil {
				return err
			}
		}
		if leaders != 1 || standbys != 1 {
			return fmt.Errorf("%d lead, %d follow", leaders, standbys)
		}
		return nil
	})
	return leader, standby
}

// evicted has the leader evicted, as a drain of its node does, and returns when the other one writes, which may not be
// evicted until there are two again.
func (r *replicated) evicted(leader, standby corev1.Pod) {
	r.t.Helper()
	evict := func(pod corev1.Pod) error {
		return r.n.s.client.PolicyV1().Evictions(r.namespace).Evict(r.t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
	}
	r.until("evict "+leader.Name, func() error { return evict(leader) }) // both have to be ready, a busy machine's too
	if err := evict(standby); !apierrors.IsTooManyRequests(err) {
		r.t.Errorf("both replicas may be evicted: %v", err)
	}
	r.n.sync() // ends the leader; its next pod has to wait, or could be the first to take the Lease
	eventually(r.t, standby.Name+" takes over", func() error {
		leads, err := r.n.pods[standby.UID].process.Leads(r.t.Context())
		if err == nil && !leads {
			err = errors.New("it follows")
		}
		return err
	})
}

// checkNobody waits until no replica writes, since the Lease is out of reach, and each one's metrics say for how long.
func (r *replicated) checkNobody() {
	r.t.Helper()
	r.until("nobody writes", func() error {
		for _, pod := range r.n.pods {
			leads, err := pod.process.Leads(r.t.Context())
			all, problem := pod.process.Metrics(r.t.Context())
			if err := errors.Join(err, problem); err != nil {
				return err
			}
			unseen := time.Since(time.UnixMilli(int64(all[`kubejournal_lease_seen_timestamp_seconds{lease="`+r.namespace+`/kubejournal"}`] * 1000)))
			if leads || unseen < outOfReach || unseen > patience {
				return fmt.Errorf("writes: %t; the Lease was seen %s ago", leads, unseen)
			}
		}
		return nil
	})
}

// checkJournals proves what the replicas have written: each write once, as one journal without a gap.
func (r *replicated) checkJournals() {
	r.t.Helper()
	claims, err := r.n.s.client.CoreV1().PersistentVolumeClaims(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 2 {
		r.t.Fatalf("%d volumes: %v", len(claims.Items), err)
	}
	live, err := workload.Live(r.t.Context(), r.Client, r.Ledger.Sources)
	if err != nil {
		r.t.Fatal(err)
	}
	var lines []invariant.Line
	raw := new(invariant.Replicas)
	r.until("all is written", func() error {
		raw.Journals = nil
		for _, c := range claims.Items {
			journal, err := invariant.ReadJournal(filepath.Join(r.n.dir, "volumes", string(c.UID), "journal.jsonl"))
			if err != nil {
				return err
			}
			raw.Journals = append(raw.Journals, journal)
		}
		if lines, err = replicas.Merge(raw.Journals...); err != nil {
			return err
		}
		var ours []invariant.Line
		for _, l := range lines {
			if l.Stream == r.Ledger.Sources[0].Stream() {
				ours = append(ours, l)
			}
		}
		told, err := invariant.Replay(ours)
		return errors.Join(err, invariant.Writes(ours, r.Ledger.Writes()), invariant.Compare(told, live))
	})
	if err := errors.Join(
		raw.Check(), raw.Merged(lines), invariant.Objects(lines), invariant.Streams(lines, false),
	); err != nil {
		r.t.Error(err)
	}
	terms := make(map[uint64]bool)
	for _, l := range lines {
		terms[l.Term] = true
		if l.Type == invariant.Gap {
			r.t.Errorf("%s: GAP %s of %s", l.Where, l.Reason, l.Stream)
		}
	}
	if len(terms) < 3 {
		r.t.Errorf("%d terms: an eviction and an update end one each", len(terms))
	}
	writes, _ := r.Ledger.Counts()
	r.t.Logf("%d terms, %d lines, %d acknowledged writes, %d repeated", len(terms), len(lines), writes, len(raw.Repeated()))
}
