package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const shop = "shop"

var (
	nodes       = resource("", "nodes")
	pods        = resource("", "pods")
	configMaps  = resource("", "configmaps")
	deployments = resource("apps", "deployments")

	web = object{deployments, shop, "web"}
)

func resource(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// object is where an object is.
type object struct {
	schema.GroupVersionResource
	namespace, name string
}

const waiting = "/status/containerStatuses/0/state/waiting/reason"

// step is one act. It returns when the cluster shows what came of it.
type step struct {
	name string
	do   func(context.Context) error
}

// story is the bad day.
func (x *incident) story() []step {
	return []step{
		{"The shop and a preview of it are deployed", all(x.types("apply -f shop.yaml"), x.rolledOut(3))},
		{"Somebody edits the config map: more log", all(
			x.types("edit configmap web-settings -n shop", `KUBE_EDITOR=sed -i "s/level: info/level: debug/"`),
			x.note)},
		{"Somebody else edits it again: a timeout",
			x.types(`patch configmap web-settings -n shop -p {"data":{"timeout":"3s"}}`)},
		{"It gets a label, and loses it", all(
			x.types("label configmap web-settings -n shop tier=front"),
			x.types("label configmap web-settings -n shop tier-"))},
		{"web is scaled from 3 to 5", x.types("scale deployment web -n shop --replicas=5")},
		{"An autoscaler is made, and has web at 6", all(
			x.types("autoscale deployment web -n shop --min=6 --max=9"), x.becomes(web, "/spec/replicas", 6),
			x.rolledOut(6))},
		{"The password is rotated, and the banner another", x.types("apply -f rotated.yaml")},
		{"An intern may do everything in the shop",
			x.types("create rolebinding intern -n shop --clusterrole=admin --user=intern")},
		{"A bad image is deployed, which no pod can pull", all(
			x.types("set image deployment/web -n shop web=registry.example/web:1.5.0-bad"),
			x.fails("1.5.0-bad", 3, waiting, "ImagePullBackOff"))},
		{"A job fails, twice",
			all(x.types("create -f migrate.yaml"), x.fails("1.5.0-crash", 2, "/status/phase", "Failed"))},
		{"kubejournal is killed", x.killed},
		{"Meanwhile web is rolled back", all(x.types("rollout undo deployment/web -n shop"), x.rolledOut(6))},
		{"and a second bad image deployed", all(
			x.types("set image deployment/web -n shop web=registry.example/web:1.5.1-bad"),
			x.fails("1.5.1-bad", 3, waiting, "ImagePullBackOff"))},
		{"kubejournal is started again", x.startedAgain},
		{"Argo CD brings an image that works", all(
			x.types("apply --server-side --force-conflicts --field-manager=argocd -f fixed.yaml"), x.rolledOut(6))},
		{"web is scaled to 2, which the autoscaler undoes", all(
			x.types("scale deployment web -n shop --replicas=2"), x.becomes(web, "/spec/replicas", 6), x.rolledOut(6))},
		{"A node is drained", all(
			x.types("drain node-b --force"), x.rolledOut(6), x.types("uncordon node-b"))},
		{"Custom resources: coupons are defined and made", all(
			x.types("apply -f definition.yaml"),
			func(ctx context.Context) error { return x.watching(ctx, "coupons.shop.example.com") },
			x.types("apply -f coupons.yaml"),
			x.types(`patch coupon sorry -n shop --type=merge -p {"spec":{"percent":20}}`))},
		{"A coupon is deleted, then their definition", all(
			x.types("delete coupon summer -n shop"), x.types("delete crd coupons.shop.example.com"))},
		{"The preview's namespace is deleted", all(x.remember, x.types("delete namespace preview"))},
		{"A config map is deleted and made anew", all(
			x.types("delete configmap flags -n shop"),
			x.types("create configmap flags -n shop --from-literal=checkout=new"))},
		{"An operator holds it by a finalizer, and lets it go", all(x.types(holds), x.types(letsGo))},
		{"and holds it while it is deleted", all(
			x.types(holds), x.types("delete configmap flags -n shop --wait=false"), x.types(letsGo))},
		{"Two write in turn, faster than the clock of managedFields", x.contend},
		{"The network is out, and much happens", all(
			x.cutOff,
			x.types("delete configmap web-banner -n shop"),
			x.types(`patch configmap web-settings -n shop -p {"data":{"timeout":"10s"}}`),
			x.types("create configmap apology -n shop --from-literal=text=Sorry"))},
		{"The API server restarts and forgets; the network comes back", x.forgets},
		{"web is restarted, and the day is over",
			all(x.types("rollout restart deployment/web -n shop"), x.rolledOut(6))},
	}
}

const (
	holds = `patch configmap flags -n shop --field-manager=operator -p {"metadata":{` +
		`"finalizers":["shop.example.com/held"]}}`
	letsGo = `patch configmap flags -n shop --field-manager=operator -p {"metadata":{"finalizers":null}}`
)

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

// contend has two clients write the same field, four times within a second or two.
func (x *incident) contend(ctx context.Context) error {
	for i := range 4 {
		who := []string{"first", "second"}[i%2]
		patch := fmt.Sprintf(`{"data":{"turn":"%d"}}`, i)
		if err := x.patch(ctx, object{configMaps, shop, "web-settings"}, types.MergePatchType, patch, who); err != nil {
			return err
		}
	}
	return nil
}

// patch is what a client of this name writes.
func (x *incident) patch(ctx context.Context, o object, how types.PatchType, patch, who string,
	subresources ...string) error {
	_, err := x.in(o).Patch(ctx, o.name, how, []byte(patch), metav1.PatchOptions{FieldManager: who}, subresources...)
	return err
}

// becomes waits until a field has a value.
func (x *incident) becomes(o object, field string, to any) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.await(ctx, o, fmt.Sprintf("%s of %s is %v", field, o.name, to), func(got map[string]any) bool {
			return same(value(got, field), to)
		})
	}
}

// rolledOut waits until web has so many pods of its present template, all of them available.
func (x *incident) rolledOut(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.await(ctx, web, "web is rolled out", func(got map[string]any) bool { return isRolledOut(got, n) })
	}
}

func isRolledOut(deployment map[string]any, n any) bool {
	done := same(value(deployment, "/status/observedGeneration"), value(deployment, "/metadata/generation"))
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
		done = done && same(value(deployment, "/status/"+field), n)
	}
	return done
}

// fails waits until n pods of an image show in this field of their status that they fail.
func (x *incident) fails(image string, n int, field, as string) func(context.Context) error {
	return func(ctx context.Context) error {
		return x.eventually(ctx, "pods of "+image+" fail", func() error {
			list, err := x.client.Resource(pods).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			failed := 0
			for _, pod := range list.Items {
				if of, _ := value(pod.Object, "/spec/containers/0/image").(string); strings.HasSuffix(of, image) &&
					same(value(pod.Object, field), as) {
					failed++
				}
			}
			if failed < n {
				return fmt.Errorf("%d of %d", failed, n)
			}
			return nil
		})
	}
}

func (x *incident) killed(ctx context.Context) error {
	if err := x.caughtUp(ctx); err != nil {
		return err
	}
	x.ledger.typed(fmt.Sprintf("kill -9 %d", x.daemon.PID()))
	x.ledger.out("kubejournal was killed")
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
	x.ledger.out("kubejournal could not reach the API server")
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
