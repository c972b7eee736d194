package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

const shop, preview = "shop", "preview"

// Who writes in the story. A kubectl names itself by its command; all controllers are one program.
var (
	apply      = by{"kubectl-client-side-apply", ""}
	created    = by{"kubectl-create", ""}
	edited     = by{"kubectl-edit", ""}
	patched    = by{"kubectl-patch", ""}
	set        = by{"kubectl-set", ""}
	undone     = by{"kubectl", ""}
	rolled     = by{"kubectl-rollout", ""}
	autoscaled = by{"kubectl-autoscale", ""}
	scaled     = by{"kubectl", "scale"}
	argocd     = by{"argocd", ""}
	autoscaler = by{"kube-controller-manager", "scale"}
	scheduler  = by{"kube-scheduler", "binding"}
	kubelet    = by{"kubelet", "status"}
)

var (
	nodes       = resource("", "nodes")
	pods        = resource("", "pods")
	configMaps  = resource("", "configmaps")
	secrets     = resource("", "secrets")
	deployments = resource("apps", "deployments")
	coupons     = resource("shop.example.com", "coupons")

	shopSpace    = object{workload.Namespaces, "", shop}
	previewSpace = object{workload.Namespaces, "", preview}
	web          = object{deployments, shop, "web"}
	webService   = object{resource("", "services"), shop, "web"}
	settings     = configMap("web-settings")
	banner       = configMap("web-banner")
	flags        = configMap("flags")
	login        = object{secrets, shop, "db-login"}
	definition   = object{workload.Definitions, "", "coupons.shop.example.com"}
	sorry        = object{coupons, shop, "sorry"}
	summer       = object{coupons, shop, "summer"}
)

func resource(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

func configMap(name string) object { return object{configMaps, shop, name} }

const (
	image     = "/spec/template/spec/containers/0/image"
	replicas  = "/spec/replicas"
	restarted = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt"
	waiting   = "/status/containerStatuses/0/state/waiting/reason"
)

// step is one act. It returns when the cluster shows what came of it.
type step struct {
	name string
	do   func(context.Context) error
}

// story is the bad day.
func (x *incident) story() []step {
	return []step{
		{"The shop and a preview of it are deployed", all(
			x.creates("apply -f shop.yaml", apply, shopSpace, settings, banner, flags, login, webService, web, previewSpace),
			x.rolledOut(3))},
		{"Somebody edits the config map: more log", x.sets(settings, "/data/log.level", "debug", edited,
			"edit configmap web-settings -n shop", `KUBE_EDITOR=sed -i "s/level: info/level: debug/"`)},
		{"Somebody else edits it again: a timeout", x.sets(settings, "/data/timeout", "3s", patched,
			`patch configmap web-settings -n shop -p {"data":{"timeout":"3s"}}`)},
		{"web is scaled from 3 to 5", x.sets(web, replicas, 5, scaled, "scale deployment web -n shop --replicas=5")},
		{"An autoscaler is made, and has web at 6", all(
			x.creates("autoscale deployment web -n shop --min=6 --max=9", autoscaled,
				object{schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, shop, "web"}),
			x.becomes(web, replicas, 5, 6, autoscaler),
			x.rolledOut(6))},
		{"The password of the database is rotated", x.sets(login, "/data/password", nil, apply, "apply -f rotated.yaml")},
		{"An intern may do everything in the shop", x.creates("create rolebinding intern -n shop --clusterrole=admin --user=intern", created,
			object{resource("rbac.authorization.k8s.io", "rolebindings"), shop, "intern"})},
		{"A bad image is deployed, which no pod can pull", all(
			x.sets(web, image, "registry.example/web:1.5.0-bad", set, "set image deployment/web -n shop web=registry.example/web:1.5.0-bad"),
			x.fails("1.5.0-bad", 3, waiting, "ImagePullBackOff"))},
		{"A job fails, twice", all(
			x.creates("create -f migrate.yaml", created, object{resource("batch", "jobs"), shop, "migrate"}),
			x.fails("1.5.0-crash", 2, "/status/phase", "Failed"))},
		{"kubejournal is killed", x.killed},
		{"Meanwhile web is rolled back", all(
			x.sets(web, image, "registry.example/web:1.4.0", undone, "rollout undo deployment/web -n shop"), x.rolledOut(6))},
		{"and a second bad image deployed", all(
			x.sets(web, image, "registry.example/web:1.5.1-bad", set, "set image deployment/web -n shop web=registry.example/web:1.5.1-bad"),
			x.fails("1.5.1-bad", 3, waiting, "ImagePullBackOff"))},
		{"kubejournal is started again", x.startedAgain},
		{"Argo CD brings an image that works", all(
			x.sets(web, image, "registry.example/web:1.5.2", argocd, "apply --server-side --force-conflicts --field-manager=argocd -f fixed.yaml"),
			x.rolledOut(6))},
		{"web is scaled to 2, which the autoscaler undoes", all(
			x.sets(web, replicas, 2, scaled, "scale deployment web -n shop --replicas=2"),
			x.becomes(web, replicas, 2, 6, autoscaler),
			x.rolledOut(6))},
		{"Custom resources: coupons are defined and made", all(
			x.creates("apply -f definition.yaml", apply, definition),
			func(ctx context.Context) error { return x.watching(ctx, "coupons.shop.example.com") },
			x.creates("apply -f coupons.yaml", apply, sorry, summer),
			x.sets(sorry, "/spec/percent", 20, patched, `patch coupon sorry -n shop --type=merge -p {"spec":{"percent":20}}`))},
		{"A coupon is deleted, then their definition", all(
			x.deletes("delete coupon summer -n shop", summer),
			x.deletes("delete crd coupons.shop.example.com", sorry, definition))},
		{"The preview's namespace is deleted", x.deletesPreview},
		{"A config map is deleted and made anew", all(
			x.deletes("delete configmap flags -n shop", flags),
			x.creates("create configmap flags -n shop --from-literal=checkout=new", created, flags))},
		{"The network is out, and much happens", all(
			x.cutOff,
			x.deletes("delete configmap web-banner -n shop", banner),
			x.sets(settings, "/data/timeout", "10s", patched, `patch configmap web-settings -n shop -p {"data":{"timeout":"10s"}}`),
			x.creates("create configmap apology -n shop --from-literal=text=Sorry", created, configMap("apology")))},
		{"The API server restarts and forgets; the network comes back", x.forgets},
		{"web is restarted, and the day is over", all(
			x.sets(web, restarted, nil, rolled, "rollout restart deployment/web -n shop"), x.rolledOut(6))},
	}
}

func all(acts ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, act := range acts {
			if err := act(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// creates types a command that makes objects.
func (x *incident) creates(command string, who by, objects ...object) func(context.Context) error {
	return func(ctx context.Context) error {
		began, err := x.types(command)
		if err != nil {
			return err
		}
		for _, o := range objects {
			made, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			x.ledger.add(o.change(invariant.Added, made, who, began))
		}
		return nil
	}
}

// sets types a command that gives a field another value; nil is a value that only kubectl knows.
func (x *incident) sets(o object, field string, to any, who by, command string, environ ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		before, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		began, err := x.types(command, environ...)
		if err != nil {
			return err
		}
		c := o.change(invariant.Modified, before, who, began).of(field, value(before.Object, field), to)
		if to == nil {
			after, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			c.To = value(after.Object, field)
		}
		x.ledger.add(c)
		return nil
	}
}

// becomes waits until a controller has given a field another value.
func (x *incident) becomes(o object, field string, from, to any, who by) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := x.await(ctx, o, fmt.Sprintf("%s of %s is %v", field, o.name, to), func(got map[string]any) bool {
			return same(value(got, field), to)
		})
		if err == nil {
			x.ledger.add(o.change(invariant.Modified, got, who, x.ledger.last().From).of(field, from, to))
		}
		return err
	}
}

// rolledOut waits until web has so many pods of its present template, all of them available.
func (x *incident) rolledOut(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := x.await(ctx, web, "web is rolled out", func(got map[string]any) bool {
			done := same(value(got, "/status/observedGeneration"), value(got, "/metadata/generation"))
			for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
				done = done && same(value(got, "/status/"+field), n)
			}
			return done
		})
		return err
	}
}

// fails waits until n pods of an image have come to a node, and show in this field of their status that they fail.
func (x *incident) fails(image string, n int, field, as string) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.eventually(ctx, "pods of "+image+" fail", func() error {
			list, err := x.client.Resource(pods).Namespace(shop).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			var failed []Change
			for i := range list.Items {
				pod := &list.Items[i]
				if of, _ := value(pod.Object, "/spec/containers/0/image").(string); strings.HasSuffix(of, image) && same(value(pod.Object, field), as) {
					o, from := object{pods, shop, pod.GetName()}, x.ledger.last().From
					failed = append(failed, o.change(invariant.Modified, pod, kubelet, from).of(field, nil, as),
						o.change(invariant.Modified, pod, scheduler, from).of("/spec/nodeName", nil, value(pod.Object, "/spec/nodeName")))
				}
			}
			if len(failed) < 2*n {
				return fmt.Errorf("%d of %d", len(failed)/2, n)
			}
			x.ledger.add(failed...)
			return nil
		})
	}
}

// deletes types a command that deletes objects, and waits for their end.
func (x *incident) deletes(command string, objects ...object) func(context.Context) error {
	return func(ctx context.Context) error {
		var before []*unstructured.Unstructured
		for _, o := range objects {
			got, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			before = append(before, got)
		}
		began, err := x.types(command)
		for i, o := range objects {
			if err == nil {
				err = x.gone(ctx, o)
			}
			if err == nil {
				x.ledger.add(o.change(invariant.Deleted, before[i], by{}, began))
			}
		}
		return err
	}
}

// deletesPreview is deletes for a namespace with what is in it, which controllers delete.
func (x *incident) deletesPreview(ctx context.Context) error {
	var objects []object
	for _, in := range []schema.GroupVersionResource{
		configMaps, secrets, deployments, resource("apps", "replicasets"), pods,
	} {
		list, err := x.client.Resource(in).Namespace(preview).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			objects = append(objects, object{in, preview, list.Items[i].GetName()})
		}
	}
	return x.deletes("delete namespace preview", append(objects, previewSpace)...)(ctx)
}

func (x *incident) killed(ctx context.Context) error {
	if err := x.caughtUp(ctx); err != nil {
		return err
	}
	x.ledger.typed(fmt.Sprintf("kill -9 %d", x.daemon.PID()))
	x.ledger.out("kubejournal was killed", late)
	_, err := x.daemon.Kill()
	return err
}

func (x *incident) startedAgain(ctx context.Context) error {
	x.ledger.back()
	if err := x.startDaemon(ctx); err != nil {
		return err
	}
	return x.caughtUp(ctx)
}

func (x *incident) cutOff(ctx context.Context) error {
	err := x.caughtUp(ctx)
	x.ledger.out("kubejournal could not reach the API server", missed)
	x.door.shut()
	return err
}

// forgets is the second half of the outage: the API server goes too, and comes back without its history.
func (x *incident) forgets(ctx context.Context) error {
	if err := errors.Join(x.cluster.Compact(ctx), x.cluster.KillAPIServer()); err != nil {
		return err
	}
	if err := x.look(ctx); err != nil {
		return err
	}
	if err := x.cluster.StartAPIServer(ctx); err != nil {
		return err
	}
	x.ledger.back()
	if err := x.door.open(); err != nil {
		return err
	}
	return errors.Join(x.watching(ctx, "pods"), x.caughtUp(ctx))
}
