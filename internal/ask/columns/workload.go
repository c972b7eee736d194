package columns

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
)

func workloadPrinters() map[string]*Printer {
	deployment := appsv1.DeploymentStatus{}.SwaggerDoc()
	replicaSet := appsv1.ReplicaSetStatus{}.SwaggerDoc()
	daemonSet := appsv1.DaemonSetStatus{}.SwaggerDoc()
	controller := corev1.ReplicationControllerSpec{}.SwaggerDoc()
	controllerStatus := corev1.ReplicationControllerStatus{}.SwaggerDoc()
	cronJob, cronJobStatus := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	jobSelector := wide(column("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"]))
	autoscaler := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	wideContainers, wideImages := wide(containersColumn), wide(imagesColumn)
	return map[string]*Printer{
		"deployments.v1.apps": of(func(o *appsv1.Deployment, at clock) []any {
			names, images := containers(o.Spec.Template.Spec)
			selector := "<invalid>"
			if s, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil {
				selector = s.String()
			}
			return []any{
				o.Name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, desired(o.Spec.Replicas)),
				int64(o.Status.UpdatedReplicas), int64(o.Status.AvailableReplicas), at.age(o.ObjectMeta),
				names, images, selector,
			}
		},
			name,
			column("Ready", "Number of the pod with ready state"),
			column("Up-to-date", deployment["updatedReplicas"]),
			column("Available", deployment["availableReplicas"]),
			age, wideContainers, wideImages,
			wide(column("Selector", appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])),
		),
		"replicasets.v1.apps": of(func(o *appsv1.ReplicaSet, at clock) []any {
			names, images := containers(o.Spec.Template.Spec)
			return []any{
				o.Name, int64(desired(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas),
				at.age(o.ObjectMeta), names, images, metav1.FormatLabelSelector(o.Spec.Selector),
			}
		},
			name,
			integer("Desired", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
			integer("Current", replicaSet["replicas"]),
			integer("Ready", replicaSet["readyReplicas"]),
			age, wideContainers, wideImages,
			wide(column("Selector", appsv1.ReplicaSetSpec{}.SwaggerDoc()["selector"])),
		),
		"replicationcontrollers.v1.": of(func(o *corev1.ReplicationController, at clock) []any {
			var names, images string
			if o.Spec.Template != nil {
				names, images = containers(o.Spec.Template.Spec)
			}
			return []any{
				o.Name, int64(desired(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas),
				at.age(o.ObjectMeta), names, images, labels.FormatLabels(o.Spec.Selector),
			}
		},
			name,
			integer("Desired", controller["replicas"]),
			integer("Current", controllerStatus["replicas"]),
			integer("Ready", controllerStatus["readyReplicas"]),
			age, wideContainers, wideImages,
			wide(column("Selector", controller["selector"])),
		),
		"statefulsets.v1.apps": of(func(o *appsv1.StatefulSet, at clock) []any {
			names, images := containers(o.Spec.Template.Spec)
			ready := fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, desired(o.Spec.Replicas))
			return []any{o.Name, ready, at.age(o.ObjectMeta), names, images}
		},
			name,
			column("Ready", "Number of the pod with ready state"),
			age, wideContainers, wideImages,
		),
		"daemonsets.v1.apps": of(func(o *appsv1.DaemonSet, at clock) []any {
			names, images := containers(o.Spec.Template.Spec)
			s := &o.Status
			return []any{
				o.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
				int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable),
				labels.FormatLabels(o.Spec.Template.Spec.NodeSelector), at.age(o.ObjectMeta),
				names, images, metav1.FormatLabelSelector(o.Spec.Selector),
			}
		},
			name,
			integer("Desired", daemonSet["desiredNumberScheduled"]),
			integer("Current", daemonSet["currentNumberScheduled"]),
			integer("Ready", daemonSet["numberReady"]),
			integer("Up-to-date", daemonSet["updatedNumberScheduled"]),
			integer("Available", daemonSet["numberAvailable"]),
			column("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
			age, wideContainers, wideImages,
			wide(column("Selector", appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])),
		),
		"jobs.v1.batch": of(job,
			name,
			column("Status", "Status of the job."),
			column("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
			column("Duration", "Time required to complete the job."),
			age, wideContainers, wideImages, jobSelector,
		),
		"cronjobs.v1.batch": of(func(o *batchv1.CronJob, at clock) []any {
			zone, suspend, last := "<none>", "<unset>", "<none>"
			if o.Spec.TimeZone != nil {
				zone = *o.Spec.TimeZone
			}
			if o.Spec.Suspend != nil {
				suspend = map[bool]string{true: "True", false: "False"}[*o.Spec.Suspend]
			}
			if o.Status.LastScheduleTime != nil {
				last = at.since(o.Status.LastScheduleTime.Time)
			}
			names, images := containers(o.Spec.JobTemplate.Spec.Template.Spec)
			return []any{
				o.Name, o.Spec.Schedule, zone, suspend, int64(len(o.Status.Active)), last, at.age(o.ObjectMeta),
				names, images, metav1.FormatLabelSelector(o.Spec.JobTemplate.Spec.Selector),
			}
		},
			name,
			column("Schedule", cronJob["schedule"]),
			column("Timezone", cronJob["timeZone"]),
			boolean("Suspend", cronJob["suspend"]),
			integer("Active", cronJobStatus["active"]),
			column("Last Schedule", cronJobStatus["lastScheduleTime"]),
			age, wideContainers, wideImages, jobSelector,
		),
		"controllerrevisions.v1.apps": of(func(o *appsv1.ControllerRevision, at clock) []any {
			owner := "<none>"
			if c := metav1.GetControllerOf(o); c != nil {
				owner = c.Name
				if kind := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).GroupKind(); !kind.Empty() {
					owner = strings.ToLower(kind.String()) + "/" + c.Name
				}
			}
			return []any{o.Name, owner, o.Revision, at.age(o.ObjectMeta)}
		},
			name,
			column("Controller", "Controller of the object"),
			column("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
			age,
		),
		"horizontalpodautoscalers.v2.autoscaling": of(func(o *autoscalingv2.HorizontalPodAutoscaler, at clock) []any {
			least := "<unset>"
			if o.Spec.MinReplicas != nil {
				least = fmt.Sprint(*o.Spec.MinReplicas)
			}
			return []any{
				o.Name, o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name, metrics(o), least,
				int64(o.Spec.MaxReplicas), int64(o.Status.CurrentReplicas), at.age(o.ObjectMeta),
			}
		},
			name,
			column("Reference", autoscaler["scaleTargetRef"]),
			column("Targets", autoscaler["metrics"]),
			column("MinPods", autoscaler["minReplicas"]),
			column("MaxPods", autoscaler["maxReplicas"]),
			column("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"]),
			age,
		),
		"poddisruptionbudgets.v1.policy": of(func(o *policyv1.PodDisruptionBudget, at clock) []any {
			least, most := "N/A", "N/A"
			if o.Spec.MinAvailable != nil {
				least = o.Spec.MinAvailable.String()
			}
			if o.Spec.MaxUnavailable != nil {
				most = o.Spec.MaxUnavailable.String()
			}
			return []any{o.Name, least, most, int64(o.Status.DisruptionsAllowed), at.age(o.ObjectMeta)}
		},
			name,
			column("Min Available", "The minimum number of pods that must be available."),
			column("Max Unavailable", "The maximum number of pods that may be unavailable."),
			integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
			age,
		),
	}
}

// desired is a number of replicas, 1 if it is not set.
func desired(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

func job(o *batchv1.Job, at clock) []any {
	completions := fmt.Sprintf("%d/1", o.Status.Succeeded)
	if o.Spec.Completions != nil {
		completions = fmt.Sprintf("%d/%d", o.Status.Succeeded, *o.Spec.Completions)
	} else if o.Spec.Parallelism != nil && *o.Spec.Parallelism > 1 {
		completions += fmt.Sprintf(" of %d", *o.Spec.Parallelism)
	}
	took := ""
	if start, end := o.Status.StartTime, o.Status.CompletionTime; start != nil && end != nil {
		took = duration.HumanDuration(end.Sub(start.Time))
	} else if start != nil {
		took = duration.HumanDuration(at.now.Sub(start.Time))
	}
	names, images := containers(o.Spec.Template.Spec)
	return []any{
		o.Name, jobStatus(o), completions, took, at.age(o.ObjectMeta),
		names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func jobStatus(o *batchv1.Job) string {
	is := func(typ batchv1.JobConditionType) bool { // by the first condition of the type
		for _, c := range o.Status.Conditions {
			if c.Type == typ {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case o.DeletionTimestamp != nil:
		return "Terminating"
	case is(batchv1.JobSuspended):
		return "Suspended"
	case is(batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

// metrics prints the targets of an autoscaler beside the present values, which the status has in the same order.
func metrics(o *autoscalingv2.HorizontalPodAutoscaler) string {
	list := make([]string, len(o.Spec.Metrics))
	for i, m := range o.Spec.Metrics {
		var status autoscalingv2.MetricStatus
		if i < len(o.Status.CurrentMetrics) {
			status = o.Status.CurrentMetrics[i]
		}
		list[i] = metric(m, status)
	}
	return or(first(2, ", ", list), "<none>")
}

func metric(m autoscalingv2.MetricSpec, status autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus // nil if it is not known
	switch {
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		if status.External != nil {
			current = &status.External.Current
		}
		return value(m.External.Target, current)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		if status.Object != nil {
			current = &status.Object.Current
		}
		return value(m.Object.Target, current)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		if status.Pods != nil {
			current = &status.Pods.Current
		}
		return average(current) + "/" + m.Pods.Target.AverageValue.String()
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		if status.Resource != nil {
			current = &status.Resource.Current
		}
		return string(m.Resource.Name) + ": " + utilization(m.Resource.Target, current)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		if status.ContainerResource != nil {
			current = &status.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + utilization(m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

// value prints the target of a metric of its own: an average, or the value.
func value(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	present := "<unknown>"
	if target.AverageValue != nil {
		if current != nil && current.AverageValue != nil {
			present = current.AverageValue.String()
		}
		return present + "/" + target.AverageValue.String() + " (avg)"
	}
	if current != nil {
		present = current.Value.String()
	}
	return present + "/" + target.Value.String()
}

// utilization prints the target of a resource: an average, or a percentage of what is requested.
func utilization(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return average(current) + "/" + target.AverageValue.String()
	}
	present, want := "<unknown>", "<auto>"
	if current != nil && current.AverageUtilization != nil {
		present = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return present + "/" + want
}

// average prints the present average; where the status has none, as the server does.
func average(current *autoscalingv2.MetricValueStatus) string {
	if current == nil {
		return "<unknown>"
	}
	return current.AverageValue.String()
}

// quantity prints what a list of resources has of one, 0 if it has none.
func quantity(list corev1.ResourceList, of corev1.ResourceName) string {
	q := list[of]
	return q.String()
}
