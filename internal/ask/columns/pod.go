package columns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func podPrinters() map[string]*Printer {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return map[string]*Printer{
		"pods.v1.": of(pod,
			name,
			column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
			column("Status", "The aggregate status of the containers in this pod."),
			column("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
			age,
			wide(column("IP", status["podIP"])),
			wide(column("Node", spec["nodeName"])),
			wide(column("Nominated Node", status["nominatedNodeName"])),
			wide(column("Readiness Gates", spec["readinessGates"])),
		),
		"podtemplates.v1.": of(func(o *corev1.PodTemplate, _ clock) []any {
			names, images := containers(o.Template.Spec)
			return []any{o.Name, names, images, labels.FormatLabels(o.Template.Labels)}
		},
			name, containersColumn, imagesColumn,
			column("Pod Labels", "The labels for the pod template."),
		),
	}
}

var (
	containersColumn = column("Containers", "Names of each container in the template.")
	imagesColumn     = column("Images", "Images referenced by each container in the template.")
)

// containers returns the names and the images of a pod's containers.
func containers(spec corev1.PodSpec) (names, images string) {
	var n, i []string
	for _, c := range spec.Containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

func pod(p *corev1.Pod, at clock) []any {
	status, ready, restarted := podStatus(p)
	restarts := strconv.Itoa(restarted.count)
	if restarted.count != 0 && !restarted.last.IsZero() {
		restarts += " (" + at.since(restarted.last.Time) + " ago)"
	}
	total := len(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if isSidecar(c) {
			total++
		}
	}
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, fmt.Sprintf("%d/%d", ready, total), status, restarts, at.age(p.ObjectMeta),
		or(ip, "<none>"), or(p.Spec.NodeName, "<none>"), or(p.Status.NominatedNodeName, "<none>"), readinessGates(p),
	}
}

// restarts of containers.
type restarts struct {
	count int
	last  metav1.Time // zero if it is not known
}

func (r *restarts) add(s *corev1.ContainerStatus) {
	r.count += int(s.RestartCount)
	if end := s.LastTerminationState.Terminated; end != nil && r.last.Before(&end.FinishedAt) {
		r.last = end.FinishedAt
	}
}

// podStatus sums up the containers: a status in a word, how many are ready, and the restarts of those that matter: init
// containers' until they are done, then the others'. Sidecars matter throughout.
func podStatus(p *corev1.Pod) (status string, ready int, restarted restarts) {
	status = or(p.Status.Reason, string(p.Status.Phase))
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			status = c.Reason
		}
	}
	initStatus, ready, ofInit, ofSidecars := initialization(p)
	restarted = ofInit
	status = or(initStatus, status)
	if initStatus == "" || conditionIs(p, corev1.PodInitialized) {
		var running int
		restarted = ofSidecars
		status, running = containersStatus(p, status, &restarted)
		ready += running
	}
	if p.DeletionTimestamp == nil {
		return status, ready, restarted
	}
	const nodeLost = "NodeLost" // what the node controller says of the pods of a node that it cannot reach
	switch finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed; {
	case p.Status.Reason == nodeLost:
		status = "Unknown"
	case !finished:
		status = "Terminating"
	}
	return status, ready, restarted
}

// initialization returns the status of the first init container that holds the pod up, "" if none does, how many
// sidecars up to it are ready, and the restarts up to it, of all and of sidecars.
func initialization(p *corev1.Pod) (status string, ready int, ofAll, ofSidecars restarts) {
	sidecars := make(map[string]bool, len(p.Spec.InitContainers))
	for _, c := range p.Spec.InitContainers {
		sidecars[c.Name] = isSidecar(c)
	}
	for i := range p.Status.InitContainerStatuses {
		s := &p.Status.InitContainerStatuses[i]
		ofAll.add(s)
		if sidecars[s.Name] {
			ofSidecars.add(s)
		}
		end, wait := s.State.Terminated, s.State.Waiting
		switch {
		case end != nil && end.ExitCode == 0:
		case sidecars[s.Name] && s.Started != nil && *s.Started:
			if s.Ready {
				ready++
			}
		case end != nil:
			return "Init:" + endOf(end), ready, ofAll, ofSidecars
		case wait != nil && wait.Reason != "" && wait.Reason != "PodInitializing":
			return "Init:" + wait.Reason, ready, ofAll, ofSidecars
		default:
			return fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers)), ready, ofAll, ofSidecars
		}
	}
	return "", ready, ofAll, ofSidecars
}

// containersStatus returns the pod's status as its containers have it, and how many of them run and are ready. Where
// several have a reason to show, the first one's is shown.
func containersStatus(p *corev1.Pod, status string, restarted *restarts) (_ string, running int) {
	failure := ""
	for i := range slices.Backward(p.Status.ContainerStatuses) {
		s := &p.Status.ContainerStatuses[i]
		restarted.add(s)
		end, wait := s.State.Terminated, s.State.Waiting
		switch {
		case wait != nil && wait.Reason != "":
			status = wait.Reason
		case end != nil:
			status = endOf(end)
			if end.ExitCode != 0 {
				failure = status
			}
		case s.Ready && s.State.Running != nil:
			running++
		}
	}
	if status == "Completed" { // of the first container, while others may run or have failed
		switch {
		case running > 0 && hasCondition(p, corev1.PodReady):
			status = "Running"
		case failure != "":
			status = failure
		case running > 0:
			status = "NotReady"
		}
	}
	return status, running
}

// endOf says why a container ended.
func endOf(end *corev1.ContainerStateTerminated) string {
	switch {
	case end.Reason != "":
		return end.Reason
	case end.Signal != 0:
		return fmt.Sprintf("Signal:%d", end.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", end.ExitCode)
}

func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// hasCondition reports whether any condition of a type is true.
func hasCondition(p *corev1.Pod, typ corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == typ && c.Status == corev1.ConditionTrue
	})
}

// conditionIs reports whether the first condition of a type is true.
func conditionIs(p *corev1.Pod, typ corev1.PodConditionType) bool {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == typ })
	return i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionTrue
}

func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	open := 0
	for _, gate := range p.Spec.ReadinessGates {
		if conditionIs(p, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}
