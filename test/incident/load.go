package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	busy  = "load" // a namespace
	loads = 6      // Deployments in it, of which the first two have an autoscaler
)

// load keeps the controllers busy until the journal has so many lines, in rounds that end when all has come to rest.
func (x *incident) load(ctx context.Context, lines int) error {
	commands := []string{"create namespace load", "create configmap settings -n load --from-literal=n=0"}
	for i := range loads {
		commands = append(commands,
			fmt.Sprintf("create deployment web-%d -n load --image=registry.example/web:0 --replicas=2", i))
	}
	commands = append(commands, "autoscale deployment web-0 -n load --min=2 --max=2",
		"autoscale deployment web-1 -n load --min=2 --max=2")
	for _, c := range commands {
		if err := x.types(c)(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	for n := 0; ; n++ {
		metrics, err := x.daemon.Metrics(ctx)
		if err != nil {
			return err
		}
		if seq := int(metrics["kubejournal_journal_seq"]); seq >= lines {
			fmt.Printf("%d lines after %d rounds of load in %s\n", seq, n, time.Since(began).Round(time.Second))
			return nil
		}
		if err := x.round(ctx, n); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
	}
}

// round writes as people and their tools do, and waits until the Deployments are rolled out.
func (x *incident) round(ctx context.Context, n int) error {
	for i := range loads {
		if err := x.change(ctx, i, n); err != nil {
			return err
		}
	}
	for i := range 8 {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"tier":%q}},"data":{"n":"%d"}}`, fmt.Sprint(i/4), i)
		if i%4 == 3 {
			patch = `{"metadata":{"labels":{"tier":null}}}`
		}
		who := []string{"kubectl-patch", "helm", "kubectl-edit"}[i%3]
		if err := x.patch(ctx, object{configMaps, busy, "settings"}, types.MergePatchType, patch, who); err != nil {
			return err
		}
	}
	if err := x.hold(ctx, fmt.Sprint("held-", n)); err != nil {
		return err
	}
	if err := x.runJob(ctx, n); err != nil {
		return err
	}
	if err := x.evict(ctx, n); err != nil {
		return err
	}
	return x.eventually(ctx, "the load is rolled out", func() error {
		<-time.After(300 * time.Millisecond) // each look is work for the API server
		list, err := x.client.Resource(deployments).Namespace(busy).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			if !isRolledOut(d.Object, value(d.Object, "/spec/replicas")) {
				return fmt.Errorf("%s is not", d.GetName())
			}
		}
		return nil
	})
}

// change changes the Deployment i in one of six ways.
func (x *incident) change(ctx context.Context, i, n int) error {
	name := fmt.Sprint("web-", i)
	o := object{deployments, busy, name}
	template := func(inside string) string { return `"spec":{"template":{` + inside + `}}}` }
	switch (n + i) % 6 {
	case 0:
		return x.patch(ctx, o, types.StrategicMergePatchType,
			"{"+template(fmt.Sprintf(`"spec":{"containers":[{"name":"web","image":"registry.example/web:%d"}]}`, n)),
			"kubectl-set")
	case 1:
		return x.patch(ctx, o, types.MergePatchType, fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+n%4), "kubectl", "scale")
	case 2:
		head := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},`, name)
		return x.patch(ctx, o, types.ApplyPatchType,
			head+template(fmt.Sprintf(`"metadata":{"annotations":{"argocd":"%d"}}`, n)), "argocd")
	case 3:
		return x.patch(ctx, o, types.MergePatchType,
			"{"+template(fmt.Sprintf(`"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"%d"}}`, n)),
			"kubectl-rollout")
	case 4:
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n)
		return x.patch(ctx, o, types.MergePatchType, patch, "kubectl-annotate")
	default:
		if i > 1 {
			return x.patch(ctx, o, types.MergePatchType, `{"metadata":{"annotations":{"n":null}}}`, "kubectl-annotate")
		}
		autoscaler := object{resource("autoscaling", "horizontalpodautoscalers"), busy, name}
		autoscaler.Version = "v2"
		patch := fmt.Sprintf(`{"spec":{"minReplicas":%d,"maxReplicas":%[1]d}}`, 1+n%5)
		return x.patch(ctx, autoscaler, types.MergePatchType, patch, "kubectl-patch")
	}
}

// hold makes a config map with a finalizer, deletes it, and lets it go.
func (x *incident) hold(ctx context.Context, name string) error {
	o := object{configMaps, busy, name}
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,`+
		`"finalizers":["example.com/held"]}}`, name)
	if err := x.create(ctx, o, text); err != nil {
		return err
	}
	if err := x.in(o).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return x.patch(ctx, o, types.MergePatchType, `{"metadata":{"finalizers":null}}`, "operator")
}

// runJob makes a Job that fails, and deletes the one before last.
func (x *incident) runJob(ctx context.Context, n int) error {
	o := object{resource("batch", "jobs"), busy, fmt.Sprint("job-", n)}
	text := fmt.Sprintf(
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q},"spec":{"backoffLimit":0,"template":{
		"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"registry.example/job:%d-crash"}]}}}}`,
		o.name, n)
	if err := x.create(ctx, o, text); err != nil || n < 2 {
		return err
	}
	background := metav1.DeletePropagationBackground
	return x.in(o).Delete(ctx, fmt.Sprint("job-", n-2), metav1.DeleteOptions{PropagationPolicy: &background})
}

// evict evicts a pod that runs.
func (x *incident) evict(ctx context.Context, n int) error {
	list, err := x.client.Resource(pods).Namespace(busy).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	o := object{pods, busy, list.Items[n%len(list.Items)].GetName()}
	text := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`,
		o.name, busy)
	err = x.create(ctx, o, text, "eviction")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // a controller was faster
	}
	return err
}

func (x *incident) create(ctx context.Context, o object, text string, subresources ...string) error {
	made := new(unstructured.Unstructured)
	if err := json.Unmarshal([]byte(text), made); err != nil {
		return err
	}
	_, err := x.in(o).Create(ctx, made, metav1.CreateOptions{}, subresources...)
	return err
}
