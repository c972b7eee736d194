package columns

import (
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func clusterPrinters() map[string]*Printer {
	secret := corev1.Secret{}.SwaggerDoc()
	nodeStatus, nodeInfo := corev1.NodeStatus{}.SwaggerDoc(), corev1.NodeSystemInfo{}.SwaggerDoc()
	event := corev1.Event{}.SwaggerDoc()
	priorityClass := schedulingv1.PriorityClass{}.SwaggerDoc()
	flow, queuing := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc(), flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	slice := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	eventColumns := []metav1.TableColumnDefinition{
		column("Last Seen", event["lastTimestamp"]),
		column("Type", event["type"]),
		column("Reason", event["reason"]),
		column("Object", event["involvedObject"]),
		wide(column("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
		wide(column("Source", event["source"])),
		column("Message", event["message"]),
		wide(column("First Seen", event["firstTimestamp"])),
		wide(column("Count", event["count"])),
		wide(name),
	}
	return map[string]*Printer{
		"namespaces.v1.": of(func(o *corev1.Namespace, at clock) []any {
			return []any{o.Name, string(o.Status.Phase), at.age(o.ObjectMeta)}
		},
			name, column("Status", "The status of the namespace"), age,
		),
		"nodes.v1.": of(node,
			name,
			column("Status", "The status of the node"),
			column("Roles", "The roles of the node"),
			age,
			column("Version", nodeInfo["kubeletVersion"]),
			wide(column("Internal-IP", nodeStatus["addresses"])),
			wide(column("External-IP", nodeStatus["addresses"])),
			wide(column("OS-Image", nodeInfo["osImage"])),
			wide(column("Kernel-Version", nodeInfo["kernelVersion"])),
			wide(column("Container-Runtime", nodeInfo["containerRuntimeVersion"])),
		),
		"configmaps.v1.": of(func(o *corev1.ConfigMap, at clock) []any {
			return []any{o.Name, int64(len(o.Data) + len(o.BinaryData)), at.age(o.ObjectMeta)}
		},
			name, column("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), age,
		),
		"secrets.v1.": of(func(o *corev1.Secret, at clock) []any {
			return []any{o.Name, string(o.Type), int64(len(o.Data)), at.age(o.ObjectMeta)}
		},
			name, column("Type", secret["type"]), column("Data", secret["data"]), age,
		),
		"serviceaccounts.v1.": nameAndAge(),
		"limitranges.v1.":     plain(),
		"resourcequotas.v1.": of(func(o *corev1.ResourceQuota, at clock) []any {
			var requests, limits []string
			for _, r := range slices.Sorted(maps.Keys(o.Status.Hard)) {
				used := string(r) + ": " + quantity(o.Status.Used, r) + "/" + quantity(o.Status.Hard, r)
				if strings.HasPrefix(string(r), "limits.") {
					limits = append(limits, used)
				} else {
					requests = append(requests, used)
				}
			}
			return []any{o.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), at.age(o.ObjectMeta)}
		},
			name,
			column("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
			column("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			age,
		),
		"events.v1.":              of(coreEvent, eventColumns...),
		"events.v1.events.k8s.io": of(newEvent, eventColumns...),
		"leases.v1.coordination.k8s.io": of(func(o *coordinationv1.Lease, at clock) []any {
			holder := ""
			if o.Spec.HolderIdentity != nil {
				holder = *o.Spec.HolderIdentity
			}
			return []any{o.Name, holder, at.age(o.ObjectMeta)}
		},
			name, column("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), age,
		),
		"priorityclasses.v1.scheduling.k8s.io": of(func(o *schedulingv1.PriorityClass, at clock) []any {
			preemption := ""
			if o.PreemptionPolicy != nil {
				preemption = string(*o.PreemptionPolicy)
			}
			return []any{o.Name, int64(o.Value), o.GlobalDefault, at.age(o.ObjectMeta), preemption}
		},
			name,
			integer("Value", priorityClass["value"]),
			boolean("Global-Default", priorityClass["globalDefault"]),
			age,
			column("PreemptionPolicy", priorityClass["preemptionPolicy"]),
		),
		"runtimeclasses.v1.node.k8s.io": of(func(o *nodev1.RuntimeClass, at clock) []any {
			return []any{o.Name, o.Handler, at.age(o.ObjectMeta)}
		},
			name, column("Handler", ""), age,
		),
		"flowschemas.v1.flowcontrol.apiserver.k8s.io": of(func(o *flowcontrolv1.FlowSchema, at clock) []any {
			distinguisher, dangling := "<none>", "?"
			if m := o.Spec.DistinguisherMethod; m != nil {
				distinguisher = string(m.Type)
			}
			for _, c := range slices.Backward(o.Status.Conditions) {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					dangling = string(c.Status)
				}
			}
			return []any{
				o.Name, o.Spec.PriorityLevelConfiguration.Name, int64(o.Spec.MatchingPrecedence), distinguisher,
				at.age(o.ObjectMeta), dangling,
			}
		},
			name,
			column("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			column("MatchingPrecedence", flow["matchingPrecedence"]),
			column("DistinguisherMethod", flow["distinguisherMethod"]),
			age,
			column("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		),
		"prioritylevelconfigurations.v1.flowcontrol.apiserver.k8s.io": of(priorityLevel,
			name,
			column("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			column("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
			column("Queues", queuing["queues"]),
			column("HandSize", queuing["handSize"]),
			column("QueueLengthLimit", queuing["queueLengthLimit"]),
			age,
		),
		"deviceclasses.v1.resource.k8s.io":          nameAndAge(),
		"resourceclaimtemplates.v1.resource.k8s.io": nameAndAge(),
		"resourceclaims.v1.resource.k8s.io": of(func(o *resourcev1.ResourceClaim, at clock) []any {
			var state []string
			if o.DeletionTimestamp != nil {
				state = append(state, "deleted")
			} else if o.Status.Allocation == nil {
				state = append(state, "pending")
			}
			if o.Status.Allocation != nil {
				state = append(state, "allocated")
				if len(o.Status.ReservedFor) > 0 {
					state = append(state, "reserved")
				}
			}
			return []any{o.Name, strings.Join(state, ","), at.age(o.ObjectMeta)}
		},
			name,
			column("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
			age,
		),
		"resourceslices.v1.resource.k8s.io": of(func(o *resourcev1.ResourceSlice, at clock) []any {
			node := ""
			if o.Spec.NodeName != nil {
				node = *o.Spec.NodeName
			}
			return []any{o.Name, node, o.Spec.Driver, o.Spec.Pool.Name, at.age(o.ObjectMeta)}
		},
			name,
			column("Node", slice["nodeName"]),
			column("Driver", slice["driver"]),
			column("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
			age,
		),
	}
}

// nameAndAge returns the printer of resources that have no other columns.
func nameAndAge() *Printer {
	return of(func(o *metav1.PartialObjectMetadata, at clock) []any {
		return []any{o.Name, at.age(o.ObjectMeta)}
	}, name, age)
}

func node(o *corev1.Node, at clock) []any {
	status := "Unknown"
	for _, c := range o.Status.Conditions { // of several, the last
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if o.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	var roles []string
	for key, value := range o.Labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok {
			roles = append(roles, role)
		} else if key == "kubernetes.io/role" {
			roles = append(roles, value)
		}
	}
	address := func(typ corev1.NodeAddressType) string {
		for _, a := range o.Status.Addresses {
			if a.Type == typ {
				return a.Address
			}
		}
		return "<none>"
	}
	info := &o.Status.NodeInfo
	kernel := or(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		o.Name, status, or(distinct(roles), "<none>"), at.age(o.ObjectMeta), info.KubeletVersion,
		address(corev1.NodeInternalIP), address(corev1.NodeExternalIP), or(info.OSImage, "<unknown>"), kernel,
		or(info.ContainerRuntimeVersion, "<unknown>"),
	}
}

func coreEvent(o *corev1.Event, at clock) []any {
	seen := at.since(o.FirstTimestamp.Time)
	if o.FirstTimestamp.IsZero() {
		seen = at.since(o.EventTime.Time)
	}
	last, count := seen, o.Count
	if !o.LastTimestamp.IsZero() {
		last = at.since(o.LastTimestamp.Time)
	}
	if o.Series != nil {
		last, count = at.since(o.Series.LastObservedTime.Time), o.Series.Count
	} else if count == 0 { // an Event of the new API that was seen once
		count = 1
	}
	object := strings.ToLower(o.InvolvedObject.Kind)
	if o.InvolvedObject.Name != "" {
		object += "/" + o.InvolvedObject.Name
	}
	source := or(o.Source.Component, o.ReportingController)
	if host := or(o.Source.Host, o.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, o.Type, o.Reason, object, o.InvolvedObject.FieldPath, source, strings.TrimSpace(o.Message), seen,
		int64(count), o.Name,
	}
}

func newEvent(o *eventsv1.Event, at clock) []any { return coreEvent(CoreEvent(o), at) }

// CoreEvent returns an Event of events.k8s.io as one of the core group, which is the same object with other names for
// its fields.
func CoreEvent(o *eventsv1.Event) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: o.ObjectMeta, InvolvedObject: o.Regarding, Reason: o.Reason, Message: o.Note,
		Source: o.DeprecatedSource, FirstTimestamp: o.DeprecatedFirstTimestamp,
		LastTimestamp: o.DeprecatedLastTimestamp, Count: o.DeprecatedCount, Type: o.Type, EventTime: o.EventTime,
		Action: o.Action, Related: o.Related,
		ReportingController: o.ReportingController, ReportingInstance: o.ReportingInstance,
	}
	if o.Series != nil {
		e.Series = &corev1.EventSeries{Count: o.Series.Count, LastObservedTime: o.Series.LastObservedTime}
	}
	return e
}

func priorityLevel(o *flowcontrolv1.PriorityLevelConfiguration, at clock) []any {
	const none = "<none>"
	var shares, queues, handSize, queueLength any = none, none, none, none
	if limited := o.Spec.Limited; limited != nil {
		shares = int64(0)
		if limited.NominalConcurrencyShares != nil {
			shares = int64(*limited.NominalConcurrencyShares)
		}
		if q := limited.LimitResponse.Queuing; q != nil {
			queues, handSize, queueLength = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
		}
	}
	return []any{o.Name, string(o.Spec.Type), shares, queues, handSize, queueLength, at.age(o.ObjectMeta)}
}
