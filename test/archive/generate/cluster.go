package generate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	podsPerNode = 80
	namespaces  = 180
)

// populate makes what is there when the daemon starts, and the lines of the first list of each stream.
func (w *world) populate() {
	for i := range max(2, w.Pods/podsPerNode) {
		w.nodes = append(w.nodes, w.newNode(i))
	}
	w.there = append(w.there, w.nodes...)
	for _, d := range definitions {
		w.there = append(w.there, w.define(d))
	}
	for i := range max(2, min(namespaces, w.Pods/20)) {
		n := w.newObject("namespaces", "",
			fmt.Sprintf("%s-%s", words[i/3%len(words)], []string{"prod", "staging", "dev"}[i%3]))
		n.labels = fmt.Sprintf(`"kubernetes.io/metadata.name":"%s","team":"%s"`, n.name, w.word())
		n.body, n.status = `"spec":{"finalizers":["kubernetes"]}`, `{"phase":"Active"}`
		w.there = append(w.there, n)
		w.namespaces = append(w.namespaces, n.name)
	}
	for pods := 0; pods < w.Pods; {
		namespace, _ := pick(w, w.namespaces, nil)
		d := w.newDeployment(namespace)
		d.replicas = min(d.replicas, w.Pods-pods)
		pods += d.replicas
		w.establish(d)
		w.deployments = append(w.deployments, d)
	}
	for i := range 20 {
		w.leases = append(w.leases, w.newLease(i))
	}
	w.there = append(w.there, w.leases...)
	slices.SortFunc(w.there, func(a, b *item) int { // as lists are
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, s := range w.streams {
		for _, o := range w.there {
			if o.stream == s {
				w.snapshot(o)
			}
		}
		w.synced(s)
	}
	w.there = nil
}

// establish makes a deployment that is there, with two old replica sets and all that belongs to it.
func (w *world) establish(d *deployment) {
	for range 3 {
		rs := w.release(d)
		rs.respec(0)
		rs.created = begin.Add(-time.Duration(w.IntN(int(90 * day))))
		rs.observe()
	}
	rs := d.sets[2]
	rs.respec(d.replicas)
	d.respec()
	for range d.replicas {
		p := w.newPodOf(rs)
		p.created = begin.Add(-time.Duration(w.IntN(int(9 * day))))
		p.scheduled = p.created
		w.bind(p)
		w.start(p)
		p.started, p.scheduled = p.created.Add(3*time.Second), p.created
		p.ready = true
		p.observe()
		w.there = append(w.there, p.item)
	}
	d.created = begin.Add(-90 * day)
	w.observe(d)
	rs.observe()
	for _, rs := range d.sets {
		w.there = append(w.there, rs.item)
	}
	c := w.newConfigMap(d)
	w.configMaps = append(w.configMaps, c)
	w.there = append(w.there, d.item, d.slice, c)
	if len(w.deployments)%3 == 0 {
		for _, c := range []*custom{w.newCertificate(d), w.newApplication(d)} {
			w.customs = append(w.customs, c)
			w.there = append(w.there, c.item)
		}
	}
	if len(w.deployments)%20 == 0 {
		w.cronJobs = append(w.cronJobs, w.newCronJob(d))
	}
}

func (w *world) newConfigMap(d *deployment) *item {
	o := w.newObject("configmaps", d.namespace, d.name+"-config")
	o.labels = d.labels
	o.body = w.settings()
	return o
}

// settings are 0.5 to 5 KB of YAML in a ConfigMap.
func (w *world) settings() string {
	var b strings.Builder
	b.WriteString(`"data":{"config.yaml":"`)
	for range 10 + w.IntN(120) {
		fmt.Fprintf(&b, `%s:\n  %s: %d\n`, w.word(), w.word(), w.IntN(10000))
	}
	fmt.Fprintf(&b, `","version":"%s"}`, w.hex(4))
	return b.String()
}

// configure is a tool that changes a line of a ConfigMap.
func (w *world) configure() {
	o, _ := pick(w, w.configMaps, nil)
	o.body = o.body[:len(o.body)-len(`00000000"}`)] + w.hex(4) + `"}`
	if at := strings.Index(o.body, `: 1`); w.IntN(3) == 0 && at > 0 {
		o.body = o.body[:at] + fmt.Sprintf(": 2%d", w.IntN(1000)) + o.body[at+3:]
	}
	w.modify(o, w.by("argocd-controller", ""))
}

func (w *world) newNode(i int) *item {
	n := w.newObject("nodes", "", fmt.Sprintf("node-%d", i))
	n.labels = fmt.Sprintf(`"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux",`+
		`"kubernetes.io/arch":"amd64","kubernetes.io/hostname":"%s","kubernetes.io/os":"linux",`+
		`"node.kubernetes.io/instance-type":"m7.4xlarge","topology.kubernetes.io/region":"eu1",`+
		`"topology.kubernetes.io/zone":"eu1-%c"`, n.name, 'a'+i%3)
	n.annotations = `"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"`
	n.body = fmt.Sprintf(`"spec":{"podCIDR":"10.%d.%d.0/24","podCIDRs":["10.%d.%d.0/24"],`+
		`"providerID":"cloud:///eu1/%s"}`, 1+i>>8, i&255, 1+i>>8, i&255, w.hex(8))
	var b strings.Builder
	for i := range 25 {
		if i > 0 {
			b.WriteByte(',')
		}
		image := "registry.example.com/" + w.word() + "/" + w.word()
		fmt.Fprintf(&b, `{"names":["%s@sha256:%s","%s:1.%d.%d"],"sizeBytes":%d}`, image, w.hex(32), image, w.IntN(30),
			w.IntN(10), w.IntN(400e6))
	}
	n.status = fmt.Sprintf(`{"capacity":{"cpu":"16","ephemeral-storage":"209702892Ki","memory":"64771368Ki",`+
		`"pods":"110"},"allocatable":{"cpu":"15890m","ephemeral-storage":"192188443124","memory":"61850920Ki",`+
		`"pods":"110"},"conditions":[$conditions],"addresses":[{"type":"InternalIP","address":"10.0.%s"},{`+
		`"type":"Hostname","address":"%s"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"nodeInfo":{`+
		`"machineID":"%s","systemUUID":"%s","bootID":"%s","kernelVersion":"6.12.40","osImage":"Linux",`+
		`"containerRuntimeVersion":"containerd://2.1.4","kubeletVersion":"v1.37.2","operatingSystem":"linux",`+
		`"architecture":"amd64"},"images":[%s]}`,
		hostOf(n.name), n.name, w.hex(16), w.uid(), w.uid(), b.String())
	w.beat(n)
	return n
}

// beat puts the present time into a node's conditions.
func (w *world) beat(n *item) {
	var b strings.Builder
	for i, c := range [][3]string{
		{"MemoryPressure", "False", "KubeletHasSufficientMemory"},
		{"DiskPressure", "False", "KubeletHasNoDiskPressure"}, {"PIDPressure", "False", "KubeletHasSufficientPID"},
		{"Ready", "True", "KubeletReady"},
	} {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"%s","status":"%s","lastHeartbeatTime":"%s","lastTransitionTime":"%s","reason":"%s",`+
			`"message":"kubelet reports %s"}`,
			c[0], c[1], second(w.now), second(begin.Add(-30*day)), c[2], c[2])
	}
	head, rest, _ := strings.Cut(n.status, `"conditions":[`)
	_, tail, _ := strings.Cut(rest, `],"addresses"`)
	n.status = head + `"conditions":[` + b.String() + `],"addresses"` + tail
}

func (w *world) heartbeat() {
	n, _ := pick(w, w.nodes, nil)
	w.beat(n)
	w.modify(n, w.by(kubelet, "status"))
}

func (w *world) newLease(i int) *item {
	o := w.newObject("leases", "kube-system", fmt.Sprintf("%s-%s-%d", w.word(), w.word(), i))
	w.renew(o)
	return o
}

func (w *world) renew(o *item) {
	o.body = fmt.Sprintf(`"spec":{"holderIdentity":"%s_0b6d8a53","leaseDurationSeconds":15,"acquireTime":"%s","renewTime":"%s","leaseTransitions":4}`,
		o.name, begin.Add(-day).Format("2006-01-02T15:04:05.000000Z"), w.now.Format("2006-01-02T15:04:05.000000Z"))
}

func (w *world) renewLease() {
	o, _ := pick(w, w.leases, nil)
	w.renew(o)
	w.modify(o, w.by(o.name, ""))
}

// custom is an object of a CustomResourceDefinition.
type custom struct {
	*item
	manager string
	observe func(*custom) // makes its status
}

func (w *world) newCertificate(d *deployment) *custom {
	c := &custom{
		item: w.newObject("certificates", d.namespace, d.name+"-tls"), manager: "cert-manager-certificates-issuing",
	}
	c.generation = 1
	c.body = fmt.Sprintf(`"spec":{"secretName":"%s-tls","dnsNames":["%s.example.com"],"issuerRef":{`+
		`"kind":"ClusterIssuer","name":"letsencrypt"},"duration":"2160h0m0s"}`, d.name, d.name)
	c.observe = func(c *custom) {
		c.status = fmt.Sprintf(`{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"%s",`+
			`"reason":"Ready","message":"Certificate is up to date and has not expired","observedGeneration":1}],`+
			`"notBefore":"%s","notAfter":"%s","renewalTime":"%s","revision":%d}`,
			second(begin.Add(-10*day)), second(w.now), second(w.now.Add(90*day)), second(w.now.Add(60*day)),
			1+w.IntN(50))
	}
	c.observe(c)
	return c
}

func (w *world) newApplication(d *deployment) *custom {
	c := &custom{item: w.newObject("applications", d.namespace, d.name), manager: "argocd-application-controller"}
	c.generation = 1
	c.body = fmt.Sprintf(`"spec":{"project":"%s","source":{"repoURL":"https://git.example.com/%s/deploy.git",`+
		`"path":"apps/%s","targetRevision":"main","helm":{"valueFiles":["values.yaml","values-%s.yaml"]}},`+
		`"destination":{"server":"https://kubernetes.default.svc","namespace":"%s"},"syncPolicy":{"automated":{`+
		`"prune":true,"selfHeal":true}}}`,
		d.namespace, d.namespace, d.name, d.namespace, d.namespace)
	c.observe = func(c *custom) {
		var b strings.Builder
		for _, kind := range []string{"ConfigMap", "Service", "ServiceAccount", "Deployment", "HorizontalPodAutoscaler",
			"NetworkPolicy"} {
			fmt.Fprintf(&b, `,{"kind":"%s","version":"v1","namespace":"%s","name":"%s","status":"Synced","health":{`+
				`"status":"Healthy"}}`, kind, d.namespace, d.name)
		}
		c.status = fmt.Sprintf(`{"sync":{"status":"%s","revision":"%s"},"health":{"status":"%s"},"reconciledAt":"%s",`+
			`"operationState":{"phase":"Succeeded","startedAt":"%s"},"resources":[%s]}`,
			[]string{"Synced", "Synced", "OutOfSync"}[w.IntN(3)], w.hex(20),
			[]string{"Healthy", "Progressing"}[w.IntN(2)], second(w.now), second(w.now), b.String()[1:])
	}
	c.observe(c)
	return c
}

// reconcile is an operator that writes a status.
func (w *world) reconcile() {
	if c, ok := pick(w, w.customs, nil); ok {
		c.observe(c)
		w.modify(c.item, w.by(c.manager, "status"))
	}
}

// definitions are group, plural, kind, version, short name and a column of the resources that operators brought.
var definitions = [][6]string{
	{"cert-manager.io", "certificates", "Certificate", "v1", "cert",
		".status.conditions[?(@.type==\\\"Ready\\\")].status"},
	{"argoproj.io", "applications", "Application", "v1alpha1", "app", ".status.sync.status"},
	{"monitoring.example.com", "servicemonitors", "ServiceMonitor", "v1", "smon", ".metadata.creationTimestamp"},
}

// define makes a CustomResourceDefinition.
func (w *world) define(d [6]string) *item {
	o := w.newObject("customresourcedefinitions", "", d[1]+"."+d[0])
	o.generation = 1
	var b strings.Builder
	for i := range 40 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s%d":{"type":"string","description":"The %s of the %s that the %s of its %s names, if it `+
			`has one."}`, w.word(), i, w.word(), w.word(), w.word(), w.word())
	}
	o.body = fmt.Sprintf(`"spec":{"group":"%s","names":{"plural":"%s","singular":"%s","shortNames":["%s"],`+
		`"kind":"%s","listKind":"%sList"},"scope":"Namespaced","versions":[{"name":"%s","served":true,"storage":true,`+
		`"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}},`+
		`"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"Status","type":"string",`+
		`"jsonPath":"%s"}]}],"conversion":{"strategy":"None"}}`,
		d[0], d[1], strings.ToLower(d[2]), d[4], d[2], d[2], d[3], b.String(), d[5])
	o.status = fmt.Sprintf(`{"conditions":[{"type":"Established","status":"True","reason":"InitialNamesAccepted",`+
		`"message":"the initial names have been accepted"}],"acceptedNames":{"plural":"%s","singular":"%s",`+
		`"shortNames":["%s"],"kind":"%s","listKind":"%sList"},"storedVersions":["%s"]}`,
		d[1], strings.ToLower(d[2]), d[4], d[2], d[2], d[3])
	return o
}
