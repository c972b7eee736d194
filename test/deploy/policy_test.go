package deploy

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	user       = 65532
	tokenPath  = "/var/run/secrets/kubernetes.io/serviceaccount"
	statePath  = "/var/lib/kubejournal"
	configPath = "/etc/kubejournal"
	// preparer is the only container that may run as root, and only to give the node's folder an owner.
	preparer = "prepare-node"
	// stopsWithin is what the daemon promises, in seconds.
	stopsWithin = 5
)

// checkPolicy holds the pod against what a hardened one is.
func checkPolicy(t *testing.T, m manifests) {
	t.Helper()
	template := m.pod(t)
	pod := template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the token is mounted into every container")
	}
	if a := one[corev1.ServiceAccount](t, m, "ServiceAccount"); a.AutomountServiceAccountToken == nil || *a.AutomountServiceAccountToken {
		t.Error("the account's token is mounted into every pod that names it")
	}
	if grace := pod.TerminationGracePeriodSeconds; grace == nil {
		t.Error("terminationGracePeriodSeconds is left to the server")
	} else if *grace < 2*stopsWithin {
		t.Errorf("terminationGracePeriodSeconds is %d, the daemon stops within %d", *grace, stopsWithin)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares a namespace of its node")
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("the environment tells of every service")
	}
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser != user || s.RunAsGroup == nil || *s.RunAsGroup != user ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's securityContext is %+v", s)
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil && (v.HostPath.Path != statePath || v.Name != "state") {
			t.Errorf("volume %s is %s of the node", v.Name, v.HostPath.Path)
		}
		if v.PersistentVolumeClaim != nil && (s.FSGroup == nil || *s.FSGroup != user) {
			t.Error("the volume would belong to root")
		}
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			t.Errorf("volume %s may fill the node", v.Name)
		}
	}
	beside := sidecar(pod)
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		checkContainer(t, c, beside)
	}
	d := daemon(t, pod)
	mounted := func(path string) corev1.VolumeMount {
		i := slices.IndexFunc(d.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == path })
		if i < 0 {
			t.Fatalf("nothing is mounted at %s", path)
		}
		return d.VolumeMounts[i]
	}
	if mounted(statePath).ReadOnly || !mounted(configPath).ReadOnly || !mounted(tokenPath).ReadOnly {
		t.Error("of the daemon's mounts only the state is for writing")
	}
	if mounted(configPath).SubPath != "" {
		t.Error("a file that is mounted alone does not follow its ConfigMap")
	}
	checkSelectors(t, m, template)
}

// sidecar reports whether the daemon runs beside another program.
func sidecar(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == "kubejournal" })
}

func checkContainer(t *testing.T, c corev1.Container, beside bool) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.SeccompProfile != nil {
		t.Errorf("%s: securityContext is %+v", c.Name, s)
		return
	}
	if c.Name == preparer {
		if !slices.Equal(s.Capabilities.Add, []corev1.Capability{"CHOWN"}) {
			t.Errorf("%s: capabilities are %v", c.Name, s.Capabilities.Add)
		}
	} else if len(s.Capabilities.Add) > 0 || s.RunAsUser != nil || s.RunAsNonRoot != nil {
		t.Errorf("%s: runs with more than the pod: %+v", c.Name, s)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s: resources are %+v", c.Name, c.Resources)
	}
	if _, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "" || tag == "latest" {
		t.Errorf("%s: image %s does not say which", c.Name, c.Image)
	}
	if holds := slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == tokenPath }); holds != (c.Name == "kubejournal") {
		t.Errorf("%s: has a token: %t", c.Name, holds)
	}
	switch c.Name {
	case preparer: // it ends by itself
	case "kubejournal":
		probes := map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe}
		if beside {
			if c.ReadinessProbe != nil {
				t.Errorf("%s: what it waits for takes the program beside it out of its service", c.Name)
			}
			delete(probes, "/readyz")
		}
		for path, probe := range probes {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "http" {
				t.Errorf("%s: no probe of %s", c.Name, path)
			}
		}
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "http" && p.ContainerPort > 0 }) {
			t.Errorf("%s: probes ask a port http, it has %v", c.Name, c.Ports)
		}
		// The start may wait 15 s for the API server before it listens.
		if p := c.StartupProbe; p == nil || p.PeriodSeconds*p.FailureThreshold < 60 {
			t.Errorf("%s: startupProbe is %+v", c.Name, p)
		}
	default:
		if c.LivenessProbe == nil || c.ReadinessProbe == nil {
			t.Errorf("%s: no probes", c.Name)
		}
	}
}

// checkSelectors holds what selects pods against the pod.
func checkSelectors(t *testing.T, m manifests, template corev1.PodTemplateSpec) {
	t.Helper()
	selects := func(what string, s *metav1.LabelSelector) {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || s == nil || selector.Empty() || !selector.Matches(labels.Set(template.Labels)) {
			t.Errorf("%s selects %v, the pod has %v: %v", what, s, template.Labels, err)
		}
	}
	if sidecar(template.Spec) {
		if len(m.ofKind("NetworkPolicy")) > 0 {
			t.Error("the network policy is about the program beside the daemon too")
		}
	} else {
		checkNetwork(t, m, selects)
	}
	service := one[corev1.Service](t, m, "Service").Spec
	selects("the service", &metav1.LabelSelector{MatchLabels: service.Selector})
	if len(service.Ports) != 1 || service.Ports[0].TargetPort.String() != "http" {
		t.Errorf("the service leads to %v", service.Ports)
	}
	for _, p := range daemon(t, template.Spec).Ports {
		if service.ClusterIP == corev1.ClusterIPNone && service.Ports[0].Port != p.ContainerPort {
			t.Errorf("nothing translates port %d of a headless service to %d", service.Ports[0].Port, p.ContainerPort)
		}
	}
	switch {
	case len(m.ofKind("DaemonSet")) > 0:
		selects("the daemon set", one[appsv1.DaemonSet](t, m, "DaemonSet").Spec.Selector)
		return
	case len(m.ofKind("StatefulSet")) > 0:
		checkReplicas(t, m, selects)
		return
	}
	d := one[appsv1.Deployment](t, m, "Deployment")
	selects("the deployment", d.Spec.Selector)
	if *d.Spec.Replicas != 1 {
		t.Errorf("%d replicas would write one journal", *d.Spec.Replicas)
	}
	if len(m.ofKind("PersistentVolumeClaim")) == 0 {
		return
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("strategy %s runs two pods on one volume", d.Spec.Strategy.Type)
	}
	budget := one[policyv1.PodDisruptionBudget](t, m, "PodDisruptionBudget")
	selects("the disruption budget", budget.Spec.Selector)
	if budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() < 1 {
		t.Error("the disruption budget holds every drain")
	}
}

// checkReplicas holds a stateful set against what replicas need, of which one writes.
func checkReplicas(t *testing.T, m manifests, selects func(string, *metav1.LabelSelector)) {
	t.Helper()
	set := one[appsv1.StatefulSet](t, m, "StatefulSet").Spec
	selects("the stateful set", set.Selector)
	if set.Replicas == nil || *set.Replicas < 2 {
		t.Error("there are no two replicas, and nobody takes over")
	}
	if service := one[corev1.Service](t, m, "Service"); set.ServiceName != service.Name || service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the pods get names by the service %s", set.ServiceName)
	}
	if set.PodManagementPolicy != appsv1.ParallelPodManagement || set.UpdateStrategy != (appsv1.StatefulSetUpdateStrategy{}) {
		t.Errorf("one pod that cannot start keeps others from it, or an update is not made pod by pod: %s, %+v", set.PodManagementPolicy, set.UpdateStrategy)
	}
	if claims := set.VolumeClaimTemplates; len(claims) != 1 || claims[0].Name != "state" || set.Template.Spec.SecurityContext.FSGroup == nil {
		t.Errorf("each replica needs a volume of its own, which is its user's: %+v", claims)
	}
	spread := set.Template.Spec.TopologySpreadConstraints
	if len(spread) != 1 || spread[0].TopologyKey != corev1.LabelHostname || spread[0].MaxSkew != 1 {
		t.Fatalf("replicas are spread by %+v", spread)
	}
	budget := one[policyv1.PodDisruptionBudget](t, m, "PodDisruptionBudget").Spec
	if budget.MaxUnavailable == nil || budget.MaxUnavailable.IntValue() != 1 {
		t.Errorf("a drain may take %v replicas at once", budget.MaxUnavailable)
	}
	// Of one shard and not of the others, too.
	for what, selector := range map[string]*metav1.LabelSelector{"the disruption budget": budget.Selector, "the spread": spread[0].LabelSelector} {
		if selects(what, selector); !reflect.DeepEqual(selector, set.Selector) {
			t.Errorf("%s is about %v, the stateful set about %v", what, selector, set.Selector)
		}
	}
}

// podOf is the pod that the workload's controller would make.
func podOf(t *testing.T, m manifests) *corev1.Pod {
	t.Helper()
	template := m.pod(t)
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.GenerateName, pod.Namespace = "policy-", m.namespace(t)
	for _, set := range m.ofKind("StatefulSet") {
		for _, claim := range decode[appsv1.StatefulSet](t, set).Spec.VolumeClaimTemplates {
			claimed := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + set.GetName() + "-0"}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claimed}})
		}
	}
	return pod
}

// checkAdmission lets the server put the Pod Security Standards to the pod, which it does not for a template: in a
// namespace labelled as the manifests say, and in a restricted one, where a folder of the node is all that it may mind.
func checkAdmission(t *testing.T, s *server, m manifests) {
	t.Helper()
	pod := podOf(t, m)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := s.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, dry); err != nil {
		t.Errorf("in its namespace: %v", err)
	}
	const restricted = "restricted"
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}}"))...)
	pod.Namespace = restricted
	pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == preparer })
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.HostPath != nil {
			v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	if _, err := s.client.CoreV1().Pods(restricted).Create(t.Context(), pod, dry); err != nil {
		t.Errorf("in a restricted namespace: %v", err)
	}
	pod.Spec.SecurityContext.RunAsNonRoot = nil
	if _, err := s.client.CoreV1().Pods(restricted).Create(t.Context(), pod, dry); err == nil || !strings.Contains(err.Error(), http.StatusText(http.StatusForbidden)) && !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the server does not look at pods: %v", err)
	}
}

// checkNetwork holds the network policy against what comes in and goes out.
func checkNetwork(t *testing.T, m manifests, selects func(string, *metav1.LabelSelector)) {
	t.Helper()
	network := one[networkingv1.NetworkPolicy](t, m, "NetworkPolicy")
	selects("the network policy", &network.Spec.PodSelector)
	if !slices.Equal(network.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
		t.Errorf("the network policy is about %v", network.Spec.PolicyTypes)
	}
	for _, rule := range network.Spec.Egress {
		if len(rule.Ports) == 0 {
			t.Error("the network policy lets everything out")
		}
	}
	if len(network.Spec.Ingress) == 0 {
		t.Error("the network policy lets nobody ask for metrics")
	}
	for _, rule := range network.Spec.Ingress {
		if len(rule.Ports) != 1 || rule.Ports[0].Port.String() != "http" {
			t.Errorf("the network policy lets in %v", rule.Ports)
		}
		for _, peer := range rule.From {
			if peer.NamespaceSelector == nil || len(peer.NamespaceSelector.MatchLabels) == 0 {
				t.Errorf("the network policy lets in all of %v", peer)
			}
		}
		if len(rule.From) == 0 {
			t.Error("the network policy lets everybody in")
		}
	}
}
