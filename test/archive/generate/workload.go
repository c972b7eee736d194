package generate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/format/object"
)

const (
	controllers = "kube-controller-manager"
	kubelet     = "kubelet"
	scheduler   = "kube-scheduler"
)

// deployment is an application.
type deployment struct {
	*item
	manager  string // of the tool that rolls it out
	revision int
	podSpec  string // of any revision: with $tag for that of its image, and $token where each pod has another suffix
	replicas int
	template string        // of pods
	sets     []*replicaSet // the last one is the present one
	slice    *item         // the endpoints
	busy     bool          // it is rolled out or scaled
}

type replicaSet struct {
	*item
	of                            *deployment
	hash, podSpec, podAnnotations string
	template                      string // of pods
	wanted                        int
	pods                          []*pod
}

func (w *world) newDeployment(namespace string) *deployment {
	name := w.word() + "-" + w.word()
	d := &deployment{item: w.newObject("deployments", namespace, name+"-"+w.suffix(2)), revision: 1 + w.IntN(40)}
	d.replicas = 1 + int(min(40, w.ExpFloat64()*7))
	d.manager = []string{"argocd-controller", "helm", "kubectl-client-side-apply"}[w.IntN(3)]
	d.generation = d.revision
	d.labels = fmt.Sprintf(`"app.kubernetes.io/instance":"%s","app.kubernetes.io/managed-by":"Helm",`+
		`"app.kubernetes.io/name":"%s","app.kubernetes.io/part-of":"%s","helm.sh/chart":"%s-%d.%d.%d","team":"%s"`,
		d.name, d.name, w.word(), name, w.IntN(9), w.IntN(30), w.IntN(9), w.word())
	d.podSpec = w.podSpec(d)
	d.slice = w.newObject("endpointslices", namespace, d.name+"-"+w.suffix(5))
	d.slice.generation = 1
	d.slice.labels = fmt.Sprintf(`"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io",`+
		`"kubernetes.io/service-name":"%s"`, d.name)
	return d
}

// podSpec makes the spec of a deployment's pods, 2 to 5 KB.
func (w *world) podSpec(d *deployment) string {
	var b strings.Builder
	b.WriteString(`"volumes":[`)
	fmt.Fprintf(&b, `{"name":"config","configMap":{"name":"%s-config","defaultMode":420}},`, d.name)
	b.WriteString(`{"name":"tmp","emptyDir":{}},{"name":"kube-api-access-$token","projected":{"sources":[{` +
		`"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt",` +
		`"items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{` +
		`"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[`)
	for i := range d.containers() {
		if i > 0 {
			b.WriteByte(',')
		}
		name, image := d.name, d.image()+":$tag"
		if i == 1 {
			name, image = "proxy", "registry.example.com/platform/proxy:1.29.3"
		}
		fmt.Fprintf(&b, `{"name":"%s","image":"%s","args":["--port=8080","--config=/etc/%s/config.yaml",`+
			`"--log-level=%s"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"metrics",`+
			`"containerPort":9090,"protocol":"TCP"}],"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{`+
			`"apiVersion":"v1","fieldPath":"metadata.name"}}}`, name, image, d.name,
			[]string{"info", "debug", "warn"}[w.IntN(3)])
		for range 1 + w.IntN(8) {
			key := strings.ToUpper(w.word() + "_" + w.word())
			switch w.IntN(4) {
			case 0:
				fmt.Fprintf(&b, `,{"name":"%s_URL","value":"http://%s-%s.%s.svc.cluster.local:8080/v%d"}`, key,
					w.word(), w.word(), d.namespace, 1+w.IntN(3))
			case 1:
				fmt.Fprintf(&b, `,{"name":"%s_SECRET","valueFrom":{"secretKeyRef":{"name":"%s-%s","key":"%s"}}}`, key,
					d.name, w.word(), w.word())
			case 2:
				fmt.Fprintf(&b, `,{"name":"%s","value":"%d"}`, key, w.IntN(100000))
			default:
				fmt.Fprintf(&b, `,{"name":"%s_MODE","value":"%s"}`, key, w.word())
			}
		}
		fmt.Fprintf(&b, `],"resources":{"limits":{"cpu":"%d","memory":"%dMi"},"requests":{"cpu":"%dm",`+
			`"memory":"%dMi"}},`, 1+w.IntN(4), 256*(1+w.IntN(8)), 50*(1+w.IntN(20)), 128*(1+w.IntN(8)))
		fmt.Fprintf(&b, `"volumeMounts":[{"name":"config","mountPath":"/etc/%s"},{"name":"tmp","mountPath":"/tmp"},{`+
			`"name":"kube-api-access-$token","readOnly":true,`+
			`"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],`, d.name)
		fmt.Fprintf(&b, `"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},`+
			`"initialDelaySeconds":%d,"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,`+
			`"failureThreshold":3},"readinessProbe":{"httpGet":{"path":"/ready","port":"http","scheme":"HTTP"},`+
			`"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":3},`+
			`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",`+
			`"imagePullPolicy":"IfNotPresent","securityContext":{"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,`+
			`"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}}`, 5*w.IntN(6))
	}
	fmt.Fprintf(&b, `],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",`+
		`"serviceAccountName":"%s","serviceAccount":"%s","securityContext":{"runAsUser":%d,"fsGroup":2000,`+
		`"seccompProfile":{"type":"RuntimeDefault"}},"schedulerName":"default-scheduler","tolerations":[{`+
		`"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{`+
		`"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],`+
		`"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"`, d.name, d.name,
		1000+w.IntN(60000))
	return b.String()
}

// containers are one, or two.
func (d *deployment) containers() []string {
	if len(d.name)%6 == 0 {
		return []string{d.name, "proxy"}
	}
	return []string{d.name}
}

func (d *deployment) labelsOf(hash string) string {
	l := fmt.Sprintf(`"app.kubernetes.io/instance":"%s","app.kubernetes.io/name":"%s"`, d.name, d.name)
	if hash != "" {
		l += fmt.Sprintf(`,"pod-template-hash":"%s"`, hash)
	}
	return l
}

func (d *deployment) image() string { return "registry.example.com/" + d.namespace + "/" + d.name }

// release makes the replica set of the deployment's next revision.
func (w *world) release(d *deployment) *replicaSet {
	d.revision++
	rs := &replicaSet{of: d, hash: w.suffix(10)}
	rs.podSpec = strings.ReplaceAll(
		d.podSpec, "$tag", fmt.Sprintf("%d.%d.%d-%s", 1+d.revision/10, d.revision%10, w.IntN(20), w.hex(4)),
	)
	rs.podAnnotations = fmt.Sprintf(
		`"checksum/config":"%s","prometheus.io/port":"9090","prometheus.io/scrape":"true"`, w.hex(32),
	)
	rs.item = w.newObject("replicasets", d.namespace, d.name+"-"+rs.hash)
	rs.owner, rs.labels = d.item, d.labelsOf(rs.hash)
	rs.annotations = fmt.Sprintf(
		`"deployment.kubernetes.io/desired-replicas":"%d","deployment.kubernetes.io/max-replicas":"%d","deployment.kubernetes.io/revision":"%d"`,
		d.replicas, d.replicas+1, d.revision,
	)
	d.annotations = fmt.Sprintf(
		`"deployment.kubernetes.io/revision":"%d","meta.helm.sh/release-name":"%s","meta.helm.sh/release-namespace":"%s"`,
		d.revision, d.name, d.namespace,
	)
	template := func(labels string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{%s},"annotations":{%s}},"spec":{%s}}`, labels, rs.podAnnotations,
			strings.ReplaceAll(rs.podSpec, "-$token", ""))
	}
	d.template, rs.template = template(d.labelsOf("")), template(rs.labels)
	d.sets = append(d.sets, rs)
	return rs
}

// respec puts the number of replicas into the spec.
func (d *deployment) respec() {
	d.generation++
	d.body = fmt.Sprintf(`"spec":{"replicas":%d,"selector":{"matchLabels":{%s}},"template":%s,"strategy":{`+
		`"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%%","maxSurge":"25%%"}},`+
		`"revisionHistoryLimit":2,"progressDeadlineSeconds":600}`,
		d.replicas, d.labelsOf(""), d.template)
}

func (rs *replicaSet) respec(wanted int) {
	rs.wanted = wanted
	rs.generation++
	rs.body = fmt.Sprintf(`"spec":{"replicas":%d,"selector":{"matchLabels":{%s}},"template":%s}`, wanted, rs.labels,
		rs.template)
}

func (rs *replicaSet) ready() (n int) {
	for _, p := range rs.pods {
		if p.ready {
			n++
		}
	}
	return n
}

// observe makes the status of a replica set.
func (rs *replicaSet) observe() {
	ready := rs.ready()
	rs.status = fmt.Sprintf(`{"replicas":%d,"fullyLabeledReplicas":%d,"readyReplicas":%d,"availableReplicas":%d,`+
		`"observedGeneration":%d}`,
		len(rs.pods), len(rs.pods), ready, ready, rs.generation)
}

// observe makes the status of a deployment, and its endpoints.
func (w *world) observe(d *deployment) {
	all, ready := 0, 0
	var endpoints strings.Builder
	for _, rs := range d.sets {
		all, ready = all+len(rs.pods), ready+rs.ready()
		for _, p := range rs.pods {
			if p.ip == "" {
				continue
			}
			if endpoints.Len() > 0 {
				endpoints.WriteByte(',')
			}
			fmt.Fprintf(&endpoints, `{"addresses":["%s"],"conditions":{"ready":%t,"serving":%t,"terminating":%t},`+
				`"targetRef":{"kind":"Pod","namespace":"%s","name":"%s","uid":"%s"},"nodeName":"%s","zone":"eu1-a"}`,
				p.ip, p.ready, p.ready, !p.deleting.IsZero(), p.namespace, p.name, p.uid, p.node)
		}
	}
	last := d.sets[len(d.sets)-1]
	d.status = fmt.Sprintf(`{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%d,`+
		`"availableReplicas":%d,"unavailableReplicas":%d,"conditions":[{"type":"Available","status":"True",`+
		`"lastUpdateTime":"%s","lastTransitionTime":"%s","reason":"MinimumReplicasAvailable","message":"Deployment `+
		`has minimum availability."},{"type":"Progressing","status":"True","lastUpdateTime":"%s",`+
		`"lastTransitionTime":"%s","reason":"ReplicaSetUpdated","message":"ReplicaSet \"%s\" is progressing."}]}`,
		d.generation, all, len(last.pods), ready, ready, max(0, all-ready), second(d.created), second(d.created),
		second(w.now), second(d.created), last.name)
	d.slice.body = fmt.Sprintf(`"addressType":"IPv4","endpoints":[%s],"ports":[{"name":"http","port":8080,`+
		`"protocol":"TCP"},{"name":"metrics","port":9090,"protocol":"TCP"}]`, endpoints.String())
}

// report writes what controllers say of a replica set whose pods have changed.
func (w *world) report(rs *replicaSet) {
	rs.observe()
	w.modify(rs.item, w.by(controllers, "status"))
	w.after(30*time.Millisecond, func() {
		w.observe(rs.of)
		w.modify(rs.of.item, w.by(controllers, "status"))
		w.modify(rs.of.slice, w.by(controllers, ""))
	})
}

// rollout brings a new revision of a deployment: pod by pod, a new one is there before an old one goes.
func (w *world) rollout() {
	d, ok := pick(w, w.deployments, func(d *deployment) bool { return !d.busy })
	if !ok {
		return
	}
	d.busy = true
	old, rs := d.sets[len(d.sets)-1], w.release(d)
	d.respec()
	w.modify(d.item, w.by(d.manager, ""))
	w.after(50*time.Millisecond, func() {
		rs.respec(0)
		rs.status = `{"replicas":0}`
		w.add(rs.item, w.by(controllers, ""))
		w.emit(
			d.item, "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to 1", rs.name),
			"deployment-controller", "Normal",
		)
		w.roll(d, old, rs)
	})
}

// roll replaces the next pod, and ends a rollout after the last one.
func (w *world) roll(d *deployment, old, rs *replicaSet) {
	if rs.wanted < d.replicas {
		rs.respec(rs.wanted + 1)
		w.modify(rs.item, w.by(controllers, ""))
		w.after(100*time.Millisecond, func() {
			w.startPod(rs, func() {
				if len(old.pods) > 0 {
					old.respec(len(old.pods) - 1)
					w.modify(old.item, w.by(controllers, ""))
					w.stopPod(old.pods[0])
				}
				w.roll(d, old, rs)
			})
		})
		return
	}
	for _, p := range slices.Clone(old.pods) {
		w.stopPod(p)
	}
	w.after(time.Minute, func() {
		d.busy = false
		if len(d.sets) > 3 {
			w.remove(d.sets[0].item)
			d.sets = d.sets[1:]
		}
	})
}

// scale is an autoscaler that wants one pod more, or one less.
func (w *world) scale() {
	d, ok := pick(w, w.deployments, func(d *deployment) bool { return !d.busy })
	if !ok {
		return
	}
	rs := d.sets[len(d.sets)-1]
	more := w.IntN(2) == 0 || len(rs.pods) < 2
	if d.busy = true; more {
		d.replicas++
	} else {
		d.replicas--
	}
	d.respec()
	w.modify(d.item, object.Write{}) // through the subresource scale
	w.after(40*time.Millisecond, func() {
		rs.respec(d.replicas)
		w.modify(rs.item, w.by(controllers, ""))
		w.emit(
			d.item, "ScalingReplicaSet", fmt.Sprintf("Scaled replica set %s to %d", rs.name, d.replicas),
			"deployment-controller", "Normal",
		)
		free := func() { d.busy = false }
		if more {
			w.startPod(rs, free)
			return
		}
		w.stopPod(rs.pods[len(rs.pods)-1])
		w.after(10*time.Second, free)
	})
}
