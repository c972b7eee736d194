package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// kubelets stand in for those of all nodes: what they say of pods is all that the API shows of them. A pod runs, unless
// its image ends in -bad, which cannot be pulled, in -crash or -done, which end at once, in -loop or -oom, which end
// again and again, in -config, which waits for a config map, or in -probe, which is never ready; and a deleted pod
// goes.
type kubelets struct {
	client    dynamic.Interface
	addresses int // given to pods
	cancel    context.CancelFunc
	ended     chan struct{}
}

// startKubelets starts them. An API server that is away they try again.
func startKubelets(client dynamic.Interface) *kubelets {
	ctx, cancel := context.WithCancel(context.Background())
	k := &kubelets{client: client, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(k.ended)
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if list, err := client.Resource(pods).List(ctx,
				metav1.ListOptions{FieldSelector: "spec.nodeName!="}); err == nil {
				for i := range list.Items {
					_ = k.sync(ctx, &list.Items[i]) // or the next time
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}()
	return k
}

func (k *kubelets) stop() {
	k.cancel()
	<-k.ended
}

// sync takes a pod one step further.
func (k *kubelets) sync(ctx context.Context, pod *unstructured.Unstructured) error {
	image, _ := value(pod.Object, "/spec/containers/0/image").(string)
	now := time.Now().UTC().Format(time.RFC3339)
	switch is := value(pod.Object, waiting); {
	case pod.GetDeletionTimestamp() != nil:
		var (
			grace int64
			uid   = pod.GetUID()
		)
		return k.client.Resource(pods).Namespace(pod.GetNamespace()).Delete(ctx, pod.GetName(),
			metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}})
	case is == "ErrImagePull":
		return k.say(ctx, pod, "Pending", "waiting",
			map[string]any{"reason": "ImagePullBackOff", "message": "Back-off pulling image " + image})
	case value(pod.Object, "/status/containerStatuses") != nil:
		return nil
	case strings.HasSuffix(image, "-bad"):
		err := k.say(ctx, pod, "Pending", "waiting",
			map[string]any{"reason": "ErrImagePull", "message": image + ": not found"})
		if err != nil {
			return err
		}
		return k.warn(ctx, pod, now, "Failed to pull image "+image+": not found")
	case strings.HasSuffix(image, "-crash"):
		return k.say(ctx, pod, "Failed", "terminated",
			map[string]any{"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now})
	case strings.HasSuffix(image, "-done"):
		return k.say(ctx, pod, "Succeeded", "terminated",
			map[string]any{"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now})
	case strings.HasSuffix(image, "-loop"), strings.HasSuffix(image, "-oom"):
		return k.say(ctx, pod, "Running", "waiting", map[string]any{"reason": "CrashLoopBackOff",
			"message": "back-off 40s restarting failed container"})
	case strings.HasSuffix(image, "-config"):
		return k.say(ctx, pod, "Pending", "waiting", map[string]any{"reason": "CreateContainerConfigError",
			"message": fmt.Sprintf("configmap %q not found", value(pod.Object, "/spec/containers/0/envFrom/0/configMapRef/name"))})
	default:
		err := k.say(ctx, pod, "Running", "running", map[string]any{"startedAt": now})
		if err == nil && strings.HasSuffix(image, "-probe") {
			err = k.warn(ctx, pod, now, "Readiness probe failed: HTTP probe failed with statuscode: 503")
		}
		return err
	}
}

// say patches the pod's status. All pods have one container.
func (k *kubelets) say(ctx context.Context, pod *unstructured.Unstructured, phase, state string,
	details map[string]any) error {
	image, _ := value(pod.Object, "/spec/containers/0/image").(string)
	runs, ready := state == "running" && !strings.HasSuffix(image, "-probe"), "False"
	if runs {
		ready = "True"
	}
	last := map[string]any{}
	if strings.HasSuffix(image, "-loop") {
		last["terminated"] = map[string]any{"exitCode": 1, "reason": "Error"}
	} else if strings.HasSuffix(image, "-oom") {
		last["terminated"] = map[string]any{"exitCode": 137, "reason": "OOMKilled"}
	}
	status := map[string]any{
		"phase": phase,
		"conditions": []any{
			map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": metav1.Now()},
			map[string]any{"type": "ContainersReady", "status": ready, "lastTransitionTime": metav1.Now()},
		},
		"containerStatuses": []any{map[string]any{
			"name":  value(pod.Object, "/spec/containers/0/name"),
			"image": image, "imageID": "", "ready": runs, "started": runs,
			"restartCount": 0, "state": map[string]any{state: details}, "lastState": last,
		}},
	}
	if value(pod.Object, "/status/podIP") == nil {
		k.addresses++
		address := fmt.Sprintf("10.1.%d.%d", k.addresses/250, k.addresses%250+1)
		status["startTime"], status["podIP"], status["podIPs"] = metav1.Now(), address,
			[]any{map[string]any{"ip": address}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		_, err = k.client.Resource(pods).Namespace(pod.GetNamespace()).Patch(ctx, pod.GetName(),
			types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	}
	return err
}

// warn makes an Event about the pod.
func (k *kubelets) warn(ctx context.Context, pod *unstructured.Unstructured, now, message string) error {
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": pod.GetName() + ".failed"},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": pod.GetNamespace(),
			"name": pod.GetName(), "uid": string(pod.GetUID())},
		"reason": "Failed", "message": message, "type": "Warning", "count": int64(1), "firstTimestamp": now,
		"lastTimestamp": now,
		"source":        map[string]any{"component": "kubelet", "host": value(pod.Object, "/spec/nodeName")},
	}}
	_, err := k.client.Resource(resource("", "events")).Namespace(pod.GetNamespace()).Create(ctx, event,
		metav1.CreateOptions{FieldManager: "kubelet"})
	return err
}
