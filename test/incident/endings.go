package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kubejournal/test/workload"
)

// works is the namespace of most endings. Their nodes are of the pool of this name.
const works = "works"

var (
	replicaSets  = resource("apps", "replicasets")
	statefulSets = resource("apps", "statefulsets")
	daemonSets   = resource("apps", "daemonsets")
	jobs         = resource("batch", "jobs")
)

// endings are the ways in which objects end, and pods fail, that the story does not have.
func (x *incident) endings() []step {
	return []step{
		{"Nodes and a namespace for endings", all(
			x.types("apply -f works.yaml"),
			x.nodesTakePods("node-c", "node-d", "node-e"),
			func(ctx context.Context) error { return x.watching(ctx, "gadgets.works.example.com") })},
		{"A node is deleted, with pods on it", x.nodeGone},
		{"Rollouts, more than a history keeps", x.rollouts},
		{"Scaled down, by people, by an autoscaler and by hand", x.scaledDown},
		{"StatefulSets and DaemonSets are scaled and rolled out", x.sets},
		{"Jobs end: by their TTL, a history limit, suspended, out of time", x.jobsEnd},
		{"Pods are evicted, within a budget", x.evictions},
		{"A pod of higher priority takes a place", x.preemption},
		{"A node is not ready, then tainted", x.taints},
		{"Owners go, in the foreground, the background, and without", x.owners},
		{"Two delete at the same moment", x.races},
		{"Helm and Argo CD prune", x.prunes},
		{"A claim goes, and its volume", x.claim},
		{"Pods fail, each in its way", x.failures},
		{"A collection, a definition and a namespace are deleted", x.wholesale},
		{"The pods of the node that was deleted are gone", x.nodeIsGone},
	}
}

func (x *incident) nodesTakePods(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			if err := x.becomes(object{nodes, "", name}, "/spec/taints", nil)(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// template is that of pods with a label app, on a node of the pool or on the one that is named.
func template(app, image, node, more string) string {
	where := `"pool":"works"`
	if node != "" {
		where = fmt.Sprintf(`"kubernetes.io/hostname":%q`, node)
	}
	return fmt.Sprintf(`{"metadata":{"labels":{"app":%q}},"spec":{"nodeSelector":{%s},"tolerations":[],`+
		`"containers":[{"name":"c","image":"registry.example/%s"%s}]}}`, app, where, image, more)
}

// makes creates a workload of n replicas; spec is more of it.
func (x *incident) makes(ctx context.Context, kind object, n int, spec, template string) error {
	kinds := map[string]string{"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}
	return x.create(ctx, kind, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":%q},"spec":{%s`+
		`"replicas":%d,"selector":{"matchLabels":{"app":%q}},"template":%s}}`, kinds[kind.Resource], kind.name, spec, n,
		kind.name, template))
}

// pod creates a pod that nobody owns.
func (x *incident) pod(ctx context.Context, name, template string) error {
	return x.create(ctx, object{pods, works, name}, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod",`+
		`"metadata":{"name":%q,%s`, name, strings.TrimPrefix(template, `{"metadata":{`)))
}

// podsOf returns the names of the pods of an app that are not being deleted.
func (x *incident) podsOf(ctx context.Context, app string) (names []string, err error) {
	list, err := x.client.Resource(pods).Namespace(works).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].GetDeletionTimestamp() == nil {
			names = append(names, list.Items[i].GetName())
		}
	}
	slices.Sort(names)
	return names, nil
}

// runs waits until an app has n pods whose field is so, and no others.
func (x *incident) runs(app string, n int, field, as string) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.eventually(ctx, fmt.Sprintf("%d pods of %s", n, app), func() error {
			list, err := x.client.Resource(pods).Namespace(works).List(ctx,
				metav1.ListOptions{LabelSelector: "app=" + app})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if p := &list.Items[i]; !same(value(p.Object, field), as) || p.GetDeletionTimestamp() != nil {
					return fmt.Errorf("%s is not", p.GetName())
				}
			}
			if len(list.Items) != n {
				return fmt.Errorf("%d of %d", len(list.Items), n)
			}
			return nil
		})
	}
}

const phase = "/status/phase"

func (x *incident) running(app string, n int) func(context.Context) error {
	return x.runs(app, n, phase, "Running")
}

// isGone waits until an object is not there.
func (x *incident) isGone(o object) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.eventually(ctx, o.name+" is gone", func() error {
			_, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return cmp.Or(err, errors.New("it is there"))
		})
	}
}

// rolled waits until a Deployment has n pods of its present template.
func (x *incident) rolled(name string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.await(ctx, object{deployments, works, name}, name+" is rolled out",
			func(got map[string]any) bool { return isRolledOut(got, n) })
	}
}

func (x *incident) nodeGone(ctx context.Context) error {
	for i := range 4 {
		if err := x.pod(ctx, fmt.Sprint("stays-", i), template("stays", "stays:1", "node-d", "")); err != nil {
			return err
		}
	}
	err := x.pod(ctx, "has-ended", strings.Replace(template("ended", "job:1-done", "node-d", ""), `"spec":{`,
		`"spec":{"restartPolicy":"Never",`, 1))
	if err != nil {
		return err
	}
	// Somebody does not wait for the controller.
	return all(x.running("stays", 4), x.runs("ended", 1, phase, "Succeeded"), x.types("delete node node-d"),
		x.types("delete pod stays-0 -n works --force --grace-period=0"))(ctx)
}

func (x *incident) nodeIsGone(ctx context.Context) error {
	return all(x.running("stays", 0), x.runs("ended", 0, "", ""))(ctx)
}

func (x *incident) rollouts(ctx context.Context) error {
	web, slow := object{deployments, works, "roll"}, object{deployments, works, "other"}
	err := errors.Join(x.makes(ctx, web, 3, `"revisionHistoryLimit":1,`, template("roll", "web:0", "", "")),
		x.makes(ctx, slow, 3, `"revisionHistoryLimit":2,"strategy":{"type":"Recreate"},`, template("other", "web:0", "", "")))
	if err != nil {
		return err
	}
	for i := range 5 {
		err := all(x.rolled("roll", 3), x.rolled("other", 3),
			x.types(fmt.Sprintf("set image deployment/roll -n works c=registry.example/web:%d", i+1)),
			x.types(fmt.Sprintf("set image deployment/other -n works c=registry.example/web:%d", i+1)))(ctx)
		if err != nil {
			return err
		}
	}
	settled := all(x.rolled("roll", 3), x.rolled("other", 3))
	return all(settled, x.types("rollout undo deployment/roll -n works"), x.rolled("roll", 3))(ctx)
}

func (x *incident) scaledDown(ctx context.Context) error {
	err := errors.Join(x.makes(ctx, object{deployments, works, "size"}, 8, "", template("size", "web:1", "", "")),
		x.makes(ctx, object{deployments, works, "auto"}, 2, "", template("auto", "web:1", "", "")),
		x.makes(ctx, object{replicaSets, works, "hand"}, 4, "", template("hand", "web:1", "", "")),
		x.create(ctx, object{resource("", "replicationcontrollers"), works, "old"}, `{"apiVersion":"v1",`+
			`"kind":"ReplicationController","metadata":{"name":"old"},"spec":{"replicas":3,"selector":{"app":"old"},`+
			`"template":`+template("old", "web:1", "", "")+`}}`))
	if err != nil {
		return err
	}
	err = all(x.running("size", 8), x.running("auto", 2), x.running("hand", 4), x.running("old", 3),
		x.types("scale deployment size -n works --replicas=4"), x.running("size", 4),
		x.types("autoscale deployment auto -n works --min=4 --max=4"), x.running("auto", 4),
		x.types(`patch hpa auto -n works --type=merge -p {"spec":{"minReplicas":1,"maxReplicas":1}}`),
		x.types("scale replicaset hand -n works --replicas=1"),
		x.types("scale rc old -n works --replicas=1"))(ctx)
	if err != nil {
		return err
	}
	// Somebody deletes one that was left, and the controller makes another one.
	for range 2 {
		names, err := x.podsOf(ctx, "size")
		if err != nil {
			return err
		}
		if err := all(x.types("delete pod "+names[0]+" -n works"), x.running("size", 4))(ctx); err != nil {
			return err
		}
	}
	return all(x.running("auto", 1), x.running("hand", 1), x.running("old", 1),
		x.types("scale deployment size -n works --replicas=0"), x.running("size", 0),
		x.types("scale deployment size -n works --replicas=2"), x.running("size", 2))(ctx)
}

func (x *incident) sets(ctx context.Context) error {
	db := object{statefulSets, works, "db"}
	err := errors.Join(
		x.makes(ctx, db, 4, `"serviceName":"db","podManagementPolicy":"Parallel",`, template("db", "db:1", "", "")),
		x.create(ctx, object{daemonSets, works, "agent"}, `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":`+
			`{"name":"agent"},"spec":{"selector":{"matchLabels":{"app":"agent"}},"template":`+
			template("agent", "agent:1", "", "")+`}}`))
	if err != nil {
		return err
	}
	err = all(x.running("db", 4), x.running("agent", 2), x.types("scale statefulset db -n works --replicas=2"),
		x.running("db", 2))(ctx)
	if err != nil {
		return err
	}
	// What was made again is deleted by somebody.
	for _, command := range []string{"scale statefulset db --replicas=3", "delete pod db-2"} {
		if err := all(x.types(command+" -n works"), x.running("db", 3))(ctx); err != nil {
			return err
		}
	}
	err = all(x.types("set image statefulset/db -n works c=registry.example/db:2"),
		x.types("set image daemonset/agent -n works c=registry.example/agent:2"),
		x.imageOf("db", 3, "db:2"), x.types("delete pod db-0 -n works"), x.imageOf("agent", 2, "agent:2"),
		x.running("db", 3))(ctx)
	if err != nil {
		return err
	}
	// The agents leave a node that is no longer of the pool, and somebody deletes the other one.
	err = all(x.types("label node node-e pool-"), x.running("agent", 1), x.types("label node node-e pool=works"),
		x.running("agent", 2))(ctx)
	if err != nil {
		return err
	}
	names, err := x.podsOf(ctx, "agent")
	if err != nil {
		return err
	}
	return all(x.types("delete pod "+names[0]+" -n works"), x.running("agent", 2))(ctx)
}

// imageOf waits until an app has n pods, all of them of an image.
func (x *incident) imageOf(app string, n int, image string) func(context.Context) error {
	return x.runs(app, n, "/spec/containers/0/image", "registry.example/"+image)
}

// job creates a Job; spec is more of it.
func (x *incident) job(ctx context.Context, name, spec, image string) error {
	return x.create(ctx, object{jobs, works, name}, fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job",`+
		`"metadata":{"name":%q},"spec":{%s"backoffLimit":0,"template":%s}}`, name, spec, jobTemplate(name, image)))
}

func jobTemplate(app, image string) string {
	return strings.Replace(template(app, image, "", ""), `"spec":{`, `"spec":{"restartPolicy":"Never",`, 1)
}

func (x *incident) jobsEnd(ctx context.Context) error {
	err := errors.Join(
		x.job(ctx, "ttl-done", `"ttlSecondsAfterFinished":1,`, "job:1-done"),
		x.job(ctx, "ttl-failed", `"ttlSecondsAfterFinished":0,`, "job:1-crash"),
		x.job(ctx, "ttl-long", `"ttlSecondsAfterFinished":3600,`, "job:1-done"),
		x.job(ctx, "paused", `"parallelism":3,`, "job:1"),
		x.job(ctx, "late", `"parallelism":2,"activeDeadlineSeconds":4,`, "job:1"),
		x.create(ctx, object{resource("batch", "cronjobs"), works, "tick"}, `{"apiVersion":"batch/v1","kind":"CronJob",`+
			`"metadata":{"name":"tick"},"spec":{"schedule":"0 0 1 1 *","successfulJobsHistoryLimit":1,"jobTemplate":`+
			`{"spec":{"template":`+jobTemplate("tick", "job:1-done")+`}}}}`))
	if err != nil {
		return err
	}
	for i := range 4 {
		name := fmt.Sprint("tick-", i)
		err := all(x.types(fmt.Sprintf("create job %s -n works --from=cronjob/tick", name)),
			func(ctx context.Context) error {
				return x.eventually(ctx, name+" has ended", func() error {
					got, err := x.in(object{jobs, works, name}).Get(ctx, name, metav1.GetOptions{})
					if err == nil && value(got.Object, "/status/completionTime") == nil {
						err = errors.New("it has not")
					}
					return err
				})
			})(ctx)
		if err != nil {
			return err
		}
	}
	return all(x.running("paused", 3), x.types(`patch job paused -n works --type=merge -p {"spec":{"suspend":true}}`),
		x.running("paused", 0), x.isGone(object{jobs, works, "ttl-done"}), x.isGone(object{jobs, works, "ttl-failed"}),
		x.isGone(object{jobs, works, "tick-0"}), x.isGone(object{jobs, works, "tick-1"}),
		x.types("delete job ttl-long -n works"), x.running("late", 0))(ctx)
}

func (x *incident) evictions(ctx context.Context) error {
	err := errors.Join(x.makes(ctx, object{deployments, works, "budget"}, 3, "", template("budget", "web:1", "", "")),
		x.create(ctx, object{resource("policy", "poddisruptionbudgets"), works, "budget"}, `{"apiVersion":"policy/v1",`+
			`"kind":"PodDisruptionBudget","metadata":{"name":"budget"},"spec":{"minAvailable":2,"selector":`+
			`{"matchLabels":{"app":"budget"}}}}`))
	if err != nil {
		return err
	}
	if err := x.running("budget", 3)(ctx); err != nil {
		return err
	}
	names, err := x.podsOf(ctx, "budget")
	if err != nil {
		return err
	}
	for _, name := range names {
		err := x.eventually(ctx, name+" is evicted", func() error {
			return x.create(ctx, object{pods, works, name}, fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction",`+
				`"metadata":{"name":%q,"namespace":"works"}}`, name), "eviction")
		})
		if err != nil {
			return err
		}
	}
	return x.running("budget", 3)(ctx)
}

func (x *incident) preemption(ctx context.Context) error {
	requests := func(cpu string) string { return fmt.Sprintf(`,"resources":{"requests":{"cpu":%q}}`, cpu) }
	for i := range 2 {
		if err := x.pod(ctx, fmt.Sprint("low-", i), template("low", "web:1", "node-c", requests("3"))); err != nil {
			return err
		}
	}
	if err := x.running("low", 2)(ctx); err != nil {
		return err
	}
	high := strings.Replace(template("high", "web:1", "node-c", requests("7")), `"spec":{`,
		`"spec":{"priorityClassName":"works-high",`, 1)
	if err := x.pod(ctx, "high", high); err != nil {
		return err
	}
	return all(x.running("high", 1), x.running("low", 0), x.types("delete pod high -n works"))(ctx)
}

func (x *incident) taints(ctx context.Context) error {
	for i := range 3 {
		short := strings.Replace(template("short", "web:1", "node-e", ""), `"tolerations":[]`, `"tolerations":[{"key":`+
			`"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":1}]`, 1)
		err := errors.Join(x.pod(ctx, fmt.Sprint("short-", i), short),
			x.pod(ctx, fmt.Sprint("tainted-", i), template("tainted", "web:1", "node-e", "")))
		if err != nil {
			return err
		}
	}
	ready := func(status string) func(context.Context) error {
		return func(ctx context.Context) error {
			return x.patch(ctx, object{nodes, "", "node-e"}, types.StrategicMergePatchType, fmt.Sprintf(`{"status":`+
				`{"conditions":[{"type":"Ready","status":%q,"reason":"Kubelet","message":"the disk is slow"}]}}`, status),
				"kubelet", "status")
		}
	}
	return all(x.running("short", 3), x.running("tainted", 3), ready("False"), x.running("short", 0), ready("True"),
		x.nodesTakePods("node-e"), x.types("taint node node-e maintenance=yes:NoExecute"), x.running("tainted", 0),
		x.types("taint node node-e maintenance-"))(ctx)
}

// configMap creates one that owners, each "NAME UID", own.
func (x *incident) configMap(ctx context.Context, name, finalizers string, owners ...string) (uid string, err error) {
	var refs []string
	for _, owner := range owners {
		of, uid, _ := strings.Cut(owner, " ")
		refs = append(refs, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q,`+
			`"blockOwnerDeletion":true}`, of, uid))
	}
	o := object{configMaps, works, name}
	err = x.create(ctx, o, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,`+
		`"finalizers":[%s],"ownerReferences":[%s],"labels":{"collect":"no"}}}`, name, finalizers, strings.Join(refs, ",")))
	if err != nil {
		return "", err
	}
	got, err := x.in(o).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return name + " " + string(got.GetUID()), nil
}

// chain creates config maps, each with a finalizer, or none, and the owners that are named before it.
func (x *incident) chain(ctx context.Context, of [][]string) error {
	made := map[string]string{}
	for _, one := range of {
		var owners []string
		for _, name := range one[2:] {
			owners = append(owners, made[name])
		}
		is, err := x.configMap(ctx, one[0], one[1], owners...)
		if err != nil {
			return err
		}
		made[one[0]] = is
	}
	return nil
}

const held = `"works.example.com/held"`

func (x *incident) owners(ctx context.Context) error {
	for _, how := range []string{"foreground", "background", "orphan"} {
		o := object{deployments, works, how}
		if err := x.makes(ctx, o, 2, "", template(how, "web:1", "", "")); err != nil {
			return err
		}
		err := all(x.running(how, 2), x.types("delete deployment "+how+" -n works --cascade="+how))(ctx)
		if err != nil {
			return err
		}
	}
	if err := x.chain(ctx, [][]string{
		{"parent", ""}, {"child", "", "parent"}, {"grandchild", "", "child"}, {"child-held", held, "parent"},
		{"one", ""}, {"two", ""}, {"of-both", "", "one", "two"}, {"of-both-too", "", "one", "two"},
		{"front", ""}, {"front-child", held, "front"}, {"released", held},
	}); err != nil {
		return err
	}
	released := func(name, who string) func(context.Context) error {
		return func(ctx context.Context) error {
			return x.patch(ctx, object{configMaps, works, name}, types.MergePatchType,
				`{"metadata":{"finalizers":null}}`, who)
		}
	}
	cm := func(name string) object { return object{configMaps, works, name} }
	return all(
		x.running("foreground", 0), x.running("background", 0), x.running("orphan", 2),
		x.types("delete rs -n works -l app=orphan"), x.running("orphan", 0),
		x.types("delete cm parent -n works"), x.isGone(cm("grandchild")), released("child-held", "operator"),
		x.types("delete cm one -n works"), x.types("delete cm of-both -n works"), x.types("delete cm two -n works"),
		x.isGone(cm("of-both-too")),
		x.types("delete cm front -n works --cascade=foreground --wait=false"),
		released("front-child", "kubectl-edit"), x.isGone(cm("front")),
		x.types("delete cm released -n works --wait=false"), released("released", "operator"),
		x.types("create cm again -n works --from-literal=a=1"),
		x.types("delete cm again -n works"), x.types("create cm again -n works --from-literal=a=2"),
		x.types("replace --force -f replaced.yaml"), x.rolled("replaced", 2),
		x.types("replace -f replaced.yaml --force"), x.running("replaced", 2),
	)(ctx)
}

// races has owners deleted, and what they own right after that by somebody else.
func (x *incident) races(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for i := range 5 {
		owner, owned := fmt.Sprint("race-", i), fmt.Sprint("raced-", i)
		if err := x.chain(ctx, [][]string{{owner, ""}, {owned, "", owner}}); err != nil {
			return err
		}
		for _, name := range []string{owner, owned} {
			err := x.in(object{configMaps, works, name}).Delete(ctx, name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		o := object{replicaSets, works, fmt.Sprint("racing-", i)}
		if err := x.makes(ctx, o, 2, "", template(o.name, "web:1", "", "")); err != nil {
			return err
		}
		if err := x.running(o.name, 2)(ctx); err != nil {
			return err
		}
		names, err := x.podsOf(ctx, o.name)
		if err != nil {
			return err
		}
		if err := x.in(o).Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		for n, name := range names {
			options := metav1.DeleteOptions{}
			if n == 0 {
				options = now
			}
			err := x.in(object{pods, works, name}).Delete(ctx, name, options)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if err := x.running(o.name, 0)(ctx); err != nil {
			return err
		}
	}
	return nil
}

// as returns the incident with another program as its client.
func (x *incident) as(agent string) (*incident, error) {
	config := rest.CopyConfig(x.cluster.RESTConfig())
	config.UserAgent = agent
	client, transport, err := workload.Connect(config)
	if err != nil {
		return nil, err
	}
	x.transports = append(x.transports, transport)
	other := *x
	other.client = client
	return &other, nil
}

func (x *incident) prunes(ctx context.Context) error {
	helm, err := x.as("Helm/4.0")
	if err != nil {
		return err
	}
	argo, err := x.as("argocd-application-controller/v3.0")
	if err != nil {
		return err
	}
	secrets := resource("", "secrets")
	release := func(version int, status string) error {
		name := fmt.Sprintf("sh.helm.release.v1.shop.v%d", version)
		return helm.create(ctx, object{secrets, works, name}, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret",`+
			`"metadata":{"name":%q,"labels":{"owner":"helm","name":"shop","status":%q,"version":"%d"}}}`, name, status, version))
	}
	for _, name := range []string{"chart-a", "chart-b"} {
		err := helm.create(ctx, object{configMaps, works, name}, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"name":%q,"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":`+
			`{"meta.helm.sh/release-name":"shop","meta.helm.sh/release-namespace":"works"}}}`, name))
		if err != nil {
			return err
		}
	}
	err = errors.Join(release(1, "deployed"), release(2, "pending-upgrade"),
		helm.in(object{configMaps, works, ""}).Delete(ctx, "chart-a", metav1.DeleteOptions{}),
		helm.patch(ctx, object{secrets, works, "sh.helm.release.v1.shop.v2"}, types.MergePatchType,
			`{"metadata":{"labels":{"status":"uninstalling"}}}`, "Helm"),
		helm.in(object{configMaps, works, ""}).Delete(ctx, "chart-b", metav1.DeleteOptions{}))
	if err != nil {
		return err
	}
	app := object{resource("argoproj.io", "applications"), works, "shop"}
	app.Version = "v1alpha1"
	err = argo.create(ctx, app, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"shop"}}`)
	if err != nil {
		return err
	}
	err = argo.create(ctx, object{configMaps, works, "synced"}, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{`+
		`"name":"synced","annotations":{"argocd.argoproj.io/tracking-id":"shop:/ConfigMap:works/synced"}}}`)
	if err != nil {
		return err
	}
	if err := argo.in(object{configMaps, works, ""}).Delete(ctx, "synced", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return argo.patch(ctx, app, types.MergePatchType, fmt.Sprintf(`{"status":{"operationState":{"finishedAt":%q,`+
		`"syncResult":{"revision":"abc123","resources":[{"kind":"ConfigMap","group":"","name":"synced",`+
		`"namespace":"works","status":"Pruned"}]}}}}`, metav1.Now().UTC().Format("2006-01-02T15:04:05Z")),
		"argocd-application-controller")
}

func (x *incident) claim(ctx context.Context) error {
	return all(x.types("apply -f volume.yaml"),
		x.becomes(object{resource("", "persistentvolumeclaims"), works, "data"}, phase, "Bound"),
		x.types("delete pvc data -n works"), x.isGone(object{resource("", "persistentvolumes"), "", "works-data"}))(ctx)
}

func (x *incident) failures(ctx context.Context) error {
	reason := func(app string, n int, as string) func(context.Context) error { return x.runs(app, n, waiting, as) }
	envFrom := `,"envFrom":[{"configMapRef":{"name":"settings"}}]`
	huge := `,"resources":{"requests":{"cpu":"100"}}`
	for name, of := range map[string]string{
		"loops": template("loops", "web:1-loop", "", ""), "eats": template("eats", "web:1-oom", "", ""),
		"misses": template("misses", "web:1-config", "", envFrom), "probes": template("probes", "web:1-probe", "", ""),
		"waits": template("waits", "web:1", "", huge), "good": template("good", "web:1", "", ""),
	} {
		if name == "misses" {
			err := all(x.types("create cm settings -n works"), x.types("delete cm settings -n works"))(ctx)
			if err != nil {
				return err
			}
		}
		if err := x.makes(ctx, object{deployments, works, name}, 2, "", of); err != nil {
			return err
		}
	}
	return all(reason("loops", 2, "CrashLoopBackOff"), reason("eats", 2, "CrashLoopBackOff"),
		reason("misses", 2, "CreateContainerConfigError"),
		x.runs("probes", 2, "/status/containerStatuses/0/state/running/ready", "<nil>"),
		x.runs("waits", 2, "/status/conditions/0/reason", "Unschedulable"), x.rolled("good", 2),
		x.types("set image deployment/good -n works c=registry.example/web:2-bad"),
		x.fails("web:2-bad", 1, waiting, "ImagePullBackOff"),
		x.types("scale deployment loops -n works --replicas=1"), reason("loops", 1, "CrashLoopBackOff"),
		x.types("create quota few -n works-small --hard=pods=1"),
		x.types("create deployment few -n works-small --image=registry.example/web:1 --replicas=3"))(ctx)
}

func (x *incident) wholesale(ctx context.Context) error {
	for i := range 5 {
		o := object{resource("works.example.com", "gadgets"), works, fmt.Sprint("gadget-", i)}
		text := fmt.Sprintf(`{"apiVersion":"works.example.com/v1","kind":"Gadget","metadata":{"name":%q}}`, o.name)
		if err := x.create(ctx, o, text); err != nil {
			return err
		}
		if _, err := x.configMap(ctx, fmt.Sprint("collected-", i), ""); err != nil {
			return err
		}
	}
	if err := x.in(object{configMaps, works, ""}).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "collect=no"}); err != nil {
		return err
	}
	gadgets, err := x.in(object{resource("works.example.com", "gadgets"), works, ""}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range 2 { // what a custom resource owns
		owner := &unstructured.Unstructured{Object: gadgets.Items[i].Object}
		name := fmt.Sprint("of-gadget-", i)
		err := x.create(ctx, object{configMaps, works, name}, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"name":%q,"ownerReferences":[{"apiVersion":"works.example.com/v1","kind":"Gadget","name":%q,`+
			`"uid":%q}]}}`, name, owner.GetName(), owner.GetUID()))
		if err != nil {
			return err
		}
	}
	return all(x.types("apply -f namespace.yaml"), x.becomes(object{deployments, "works-gone", "web"},
		"/status/readyReplicas", 3), x.becomes(object{statefulSets, "works-gone", "db"}, "/status/readyReplicas", 2),
		x.types("delete gadget gadget-0 -n works"), x.isGone(object{configMaps, works, "of-gadget-0"}),
		x.types("delete crd gadgets.works.example.com"), x.isGone(object{configMaps, works, "of-gadget-1"}),
		x.types("delete namespace works-gone"))(ctx)
}
