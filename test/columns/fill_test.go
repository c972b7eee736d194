package columns

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"kubejournal/internal/format/builtin"
)

// types are those of random objects. Not among them is what would change what the server itself does:
// CustomResourceDefinitions, APIServices, ServiceCIDRs.
var types = map[string]any{
	"configmaps.v1.":                                                    corev1.ConfigMap{},
	"endpoints.v1.":                                                     corev1.Endpoints{}, //nolint:staticcheck // deprecated, and served
	"events.v1.":                                                        corev1.Event{},
	"limitranges.v1.":                                                   corev1.LimitRange{},
	"namespaces.v1.":                                                    corev1.Namespace{},
	"nodes.v1.":                                                         corev1.Node{},
	"persistentvolumeclaims.v1.":                                        corev1.PersistentVolumeClaim{},
	"persistentvolumes.v1.":                                             corev1.PersistentVolume{},
	"pods.v1.":                                                          corev1.Pod{},
	"podtemplates.v1.":                                                  corev1.PodTemplate{},
	"replicationcontrollers.v1.":                                        corev1.ReplicationController{},
	"resourcequotas.v1.":                                                corev1.ResourceQuota{},
	"secrets.v1.":                                                       corev1.Secret{},
	"serviceaccounts.v1.":                                               corev1.ServiceAccount{},
	"services.v1.":                                                      corev1.Service{},
	"controllerrevisions.v1.apps":                                       appsv1.ControllerRevision{},
	"daemonsets.v1.apps":                                                appsv1.DaemonSet{},
	"deployments.v1.apps":                                               appsv1.Deployment{},
	"replicasets.v1.apps":                                               appsv1.ReplicaSet{},
	"statefulsets.v1.apps":                                              appsv1.StatefulSet{},
	"horizontalpodautoscalers.v2.autoscaling":                           autoscalingv2.HorizontalPodAutoscaler{},
	"cronjobs.v1.batch":                                                 batchv1.CronJob{},
	"jobs.v1.batch":                                                     batchv1.Job{},
	"leases.v1.coordination.k8s.io":                                     coordinationv1.Lease{},
	"endpointslices.v1.discovery.k8s.io":                                discoveryv1.EndpointSlice{},
	"events.v1.events.k8s.io":                                           eventsv1.Event{},
	"ingressclasses.v1.networking.k8s.io":                               networkingv1.IngressClass{},
	"ingresses.v1.networking.k8s.io":                                    networkingv1.Ingress{},
	"ipaddresses.v1.networking.k8s.io":                                  networkingv1.IPAddress{},
	"networkpolicies.v1.networking.k8s.io":                              networkingv1.NetworkPolicy{},
	"runtimeclasses.v1.node.k8s.io":                                     nodev1.RuntimeClass{},
	"poddisruptionbudgets.v1.policy":                                    policyv1.PodDisruptionBudget{},
	"priorityclasses.v1.scheduling.k8s.io":                              schedulingv1.PriorityClass{},
	"csidrivers.v1.storage.k8s.io":                                      storagev1.CSIDriver{},
	"csinodes.v1.storage.k8s.io":                                        storagev1.CSINode{},
	"csistoragecapacities.v1.storage.k8s.io":                            storagev1.CSIStorageCapacity{},
	"storageclasses.v1.storage.k8s.io":                                  storagev1.StorageClass{},
	"volumeattachments.v1.storage.k8s.io":                               storagev1.VolumeAttachment{},
	"volumeattributesclasses.v1.storage.k8s.io":                         storagev1.VolumeAttributesClass{},
	"roles.v1.rbac.authorization.k8s.io":                                rbacv1.Role{},
	"rolebindings.v1.rbac.authorization.k8s.io":                         rbacv1.RoleBinding{},
	"clusterroles.v1.rbac.authorization.k8s.io":                         rbacv1.ClusterRole{},
	"clusterrolebindings.v1.rbac.authorization.k8s.io":                  rbacv1.ClusterRoleBinding{},
	"certificatesigningrequests.v1.certificates.k8s.io":                 certificatesv1.CertificateSigningRequest{},
	"flowschemas.v1.flowcontrol.apiserver.k8s.io":                       flowcontrolv1.FlowSchema{},
	"prioritylevelconfigurations.v1.flowcontrol.apiserver.k8s.io":       flowcontrolv1.PriorityLevelConfiguration{},
	"deviceclasses.v1.resource.k8s.io":                                  resourcev1.DeviceClass{},
	"resourceclaims.v1.resource.k8s.io":                                 resourcev1.ResourceClaim{},
	"resourceclaimtemplates.v1.resource.k8s.io":                         resourcev1.ResourceClaimTemplate{},
	"resourceslices.v1.resource.k8s.io":                                 resourcev1.ResourceSlice{},
	"mutatingadmissionpolicies.v1.admissionregistration.k8s.io":         admissionv1.MutatingAdmissionPolicy{},
	"mutatingadmissionpolicybindings.v1.admissionregistration.k8s.io":   admissionv1.MutatingAdmissionPolicyBinding{},
	"mutatingwebhookconfigurations.v1.admissionregistration.k8s.io":     admissionv1.MutatingWebhookConfiguration{},
	"validatingadmissionpolicies.v1.admissionregistration.k8s.io":       admissionv1.ValidatingAdmissionPolicy{},
	"validatingadmissionpolicybindings.v1.admissionregistration.k8s.io": admissionv1.ValidatingAdmissionPolicyBinding{},
	"validatingwebhookconfigurations.v1.admissionregistration.k8s.io":   admissionv1.ValidatingWebhookConfiguration{},
}

// filler makes random objects. What it knows of their types makes states likely that printers tell apart.
type filler struct {
	random  *rand.Rand
	objects *randfill.Filler
	now     time.Time
}

func newFiller(seed int64) *filler {
	f := &filler{random: rand.New(rand.NewSource(seed)), now: time.Now()}
	f.objects = randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.4).NumElements(0, 4).Funcs(
		func(s *string, c randfill.Continue) { *s = f.text() },
		func(n *int32, c randfill.Continue) { *n = f.number() },
		func(n *int64, c randfill.Continue) { *n = int64(f.number()) },
		func(t *metav1.Time, c randfill.Continue) { t.Time = f.time() },
		func(t *metav1.MicroTime, c randfill.Continue) {
			if t.Time = f.time(); !t.IsZero() {
				t.Time = t.Add(time.Duration(f.random.Intn(1e6)) * time.Microsecond)
			}
		},
		func(q *resource.Quantity, c randfill.Continue) { *q = f.quantity() },
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = make(corev1.ResourceList)
			for range f.random.Intn(5) {
				(*l)[oneOf(f, corev1.ResourceStorage, "cpu", "memory", "limits.cpu", "limits.memory", "limits", "limitsx", "requests.storage", "pods")] = f.quantity()
			}
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = oneOf(f, intstr.FromInt32(f.number()), intstr.FromString("30%"), intstr.FromString(f.text()))
		},
		func(s *metav1.LabelSelector, c randfill.Continue) {
			if s.MatchLabels = nil; f.maybe(0.6) {
				s.MatchLabels = map[string]string{"app": f.label(), "a": f.label()}
			}
			for range f.random.Intn(3) {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
					Key:      oneOf(f, "app", "tier", "zone"),
					Operator: oneOf(f, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, "Unlike"),
					Values:   oneOf(f, nil, []string{"b", "a"}, []string{f.label()}),
				})
			}
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.CreationTimestamp.Time = f.time()
			m.Labels, m.Annotations = map[string]string{}, map[string]string{}
			for range f.random.Intn(4) {
				m.Labels[oneOf(f, "app", "kubernetes.io/role", "node-role.kubernetes.io/a", "node-role.kubernetes.io/b", "node-role.kubernetes.io/")] = f.label()
				m.Annotations[oneOf(f, "note", corev1.BetaStorageClassAnnotation, networkingv1.AnnotationIsDefaultIngressClass,
					"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")] = oneOf(f, "true", "false", "")
			}
			if f.maybe(0.2) {
				m.DeletionTimestamp = &metav1.Time{Time: f.now}
				m.Finalizers = []string{"example.com/held"} // without one, any update removes the object
			}
			if f.maybe(0.5) {
				controller := f.maybe(0.7)
				m.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: oneOf(f, "v1", "apps/v1", ""), Kind: oneOf(f, "Node", "StatefulSet", ""), Name: f.label(), UID: "1", Controller: &controller,
				}}
			}
		},
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = []byte(`{"a":1}`) },

		choice(f, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, ""),
		choice(f, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown),
		choice(f, corev1.PodReady, corev1.PodInitialized, corev1.PodScheduled, "example.com/gate"),
		choice(f, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever),
		choice(f, corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod, "Other"),
		choice(f, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName, "Other"),
		choice(f, corev1.NodeReady, corev1.NodeMemoryPressure),
		choice(f, corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName),
		choice(f, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
		choice(f, batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet),
		choice(f, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed),
		choice(f, flowcontrolv1.FlowSchemaConditionDangling, "Other"),
		func(s *rbacv1.Subject, c randfill.Continue) {
			*s = rbacv1.Subject{Kind: oneOf(f, rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind, "Other"), Name: f.text(), Namespace: f.text()}
		},

		// Pods: few are filled everywhere, as they would be large.
		func(s *corev1.PodSpec, c randfill.Continue) {
			if f.maybe(0.1) {
				c.FillNoCustom(s)
				return
			}
			c.Fill(&s.Containers)
			c.Fill(&s.InitContainers)
			c.Fill(&s.ReadinessGates)
			c.Fill(&s.NodeName)
			c.Fill(&s.NodeSelector)
		},
		func(s *corev1.Container, c randfill.Continue) {
			if f.maybe(0.05) {
				c.FillNoCustom(s)
			}
			c.Fill(&s.RestartPolicy)
			c.Fill(&s.Image)
			s.Name = oneOf(f, "a", "b", "c")
		},
		func(s *corev1.ContainerStatus, c randfill.Continue) {
			*s = corev1.ContainerStatus{Name: oneOf(f, "a", "b", "c"), Ready: f.maybe(0.6), RestartCount: f.number()}
			c.Fill(&s.State)
			c.Fill(&s.LastTerminationState)
			c.Fill(&s.Started)
		},

		// A metric has what its type says, or the server ends.
		func(m *autoscalingv2.MetricSpec, c randfill.Continue) {
			m.Type = oneOf(f, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType,
				autoscalingv2.ResourceMetricSourceType, autoscalingv2.ContainerResourceMetricSourceType, "Other")
			m.External, m.Object, m.Pods = new(autoscalingv2.ExternalMetricSource), new(autoscalingv2.ObjectMetricSource), new(autoscalingv2.PodsMetricSource)
			m.Resource, m.ContainerResource = new(autoscalingv2.ResourceMetricSource), new(autoscalingv2.ContainerResourceMetricSource)
			c.Fill(m.External)
			c.Fill(m.Object)
			c.Fill(m.Pods)
			c.Fill(m.Resource)
			c.Fill(m.ContainerResource)
		},

		// What the server acts upon matches nothing, or has figures that it can reckon with.
		func(s *flowcontrolv1.FlowSchemaSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Rules, s.PriorityLevelConfiguration.Name = nil, oneOf(f, "catch-all", "none")
		},
		func(s *flowcontrolv1.PriorityLevelConfigurationSpec, c randfill.Continue) {
			shares := 1 + int32(f.random.Intn(9))
			response := flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
			if f.maybe(0.5) {
				response = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 8 + shares, HandSize: 1 + shares/4, QueueLengthLimit: shares}}
			}
			s.Type = flowcontrolv1.PriorityLevelEnablementLimited
			s.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LimitResponse: response}
		},
		func(r *[]admissionv1.RuleWithOperations, c randfill.Continue) { *r = nil },
		func(r *[]admissionv1.NamedRuleWithOperations, c randfill.Continue) { *r = nil },
		func(r *rbacv1.AggregationRule, c randfill.Continue) {},
	)
	return f
}

// object returns a random object as JSON, or nil where none are made.
func (f *filler) object(r builtin.Resource, name string) []byte {
	typ, ok := types[r.Resource+"."+r.Version+"."+r.Group]
	if !ok {
		return nil
	}
	o := reflect.New(reflect.TypeOf(typ))
	f.objects.Fill(o.Interface())
	meta := o.Interface().(metav1.Object)
	if r.Resource+r.Group == "eventsevents.k8s.io" {
		name = "new-" + name // both kinds of Event are in one place
	}
	meta.SetName(name)
	meta.SetNamespace("")
	if r.Namespaced {
		meta.SetNamespace(oneOf(f, "shop", "bank"))
	}
	meta.SetUID("00000000-0000-0000-0000-000000000001")
	version := r.Version
	if r.Group != "" {
		version = r.Group + "/" + r.Version
	}
	o.Elem().FieldByName("TypeMeta").Set(reflect.ValueOf(metav1.TypeMeta{Kind: r.Kind, APIVersion: version}))
	text, err := json.Marshal(o.Interface())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", r.Kind, err))
	}
	return text
}

func (f *filler) maybe(chance float64) bool { return f.random.Float64() < chance }

func (f *filler) label() string { return oneOf(f, "", "web", "db-1", "front") }

func (f *filler) text() string {
	return oneOf(f, "", "web", "web", "10.1.0.7", "192.0.2.77", "fd00::7", "a.example.com", "REDACTED", "<none>", "Completed", "Completed",
		"Error", "PodInitializing", "CrashLoopBackOff", "NodeLost", "SchedulingGated", "Available", "Pod", " padded\n", "a\tb\x7f<&>\u2028é\U0001F600", "\"quoted\\")
}

func (f *filler) number() int32 {
	return oneOf[int32](f, 0, 0, 0, 1, 1, 2, 3, 7, 80, 443, 30080, 2147483647)
}

func (f *filler) quantity() resource.Quantity {
	return resource.MustParse(oneOf(f, "0", "1", "100m", "1Gi", "1536Mi", "0.5", "1e3", "123456789n", "-1", "12E", "1.5Gi", "73400320", "1000k"))
}

// time is zero, in the past or a little ahead.
func (f *filler) time() time.Time {
	if f.maybe(0.1) {
		return time.Time{}
	}
	ago := time.Duration(f.random.Int63n(int64(oneOf(f, time.Minute, 10*time.Minute, 3*time.Hour, 50*time.Hour, 10*24*time.Hour, 4e4*time.Hour, 9e4*time.Hour))))
	return f.now.Add(oneOf(f, 0*time.Second, time.Second, 10*time.Second) - ago).UTC().Truncate(time.Second)
}

func oneOf[T any](f *filler, of ...T) T { return of[f.random.Intn(len(of))] }

func choice[T any](f *filler, of ...T) func(*T, randfill.Continue) {
	return func(v *T, _ randfill.Continue) { *v = oneOf(f, of...) }
}
