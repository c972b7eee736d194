package generate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/format/object"
)

// pod is a pod of a replica set or of a job.
type pod struct {
	*item
	set                *replicaSet // nil for that of a job
	node, ip           string
	image              string
	containers         []string
	scheduled, started time.Time
	phase              string
	ready, failing     bool
	finished           bool
	restarts           int
	imageID, id        string // hex digests
}

func (w *world) newPod(name, generateName string, owner *item) *pod {
	p := &pod{item: w.newObject("pods", owner.namespace, name), phase: "Pending", imageID: w.hex(32)}
	p.generateName, p.owner, p.generation = generateName, owner, 1
	return p
}

// newPodOf makes a pod of a replica set.
func (w *world) newPodOf(rs *replicaSet) *pod {
	p := w.newPod(rs.name+"-"+w.suffix(5), rs.name+"-", rs.item)
	p.set, p.image, p.containers = rs, rs.of.image(), rs.of.containers()
	p.labels, p.annotations = rs.labels, rs.podAnnotations
	p.body = `"spec":{` + strings.ReplaceAll(rs.podSpec, "$token", w.suffix(5)) + `}`
	rs.pods = append(rs.pods, p)
	return p
}

// bind puts a pod on a node.
func (w *world) bind(p *pod) {
	node, _ := pick(w, w.nodes, nil)
	p.node, p.scheduled = node.name, w.now
	p.body = strings.Replace(p.body, `"spec":{`, `"spec":{"nodeName":"`+p.node+`",`, 1)
}

// start starts a pod's containers.
func (w *world) start(p *pod) {
	w.ips++
	p.ip = fmt.Sprintf("10.%d.%d.%d", 1+w.ips>>16&127, w.ips>>8&255, w.ips&255)
	p.phase, p.started, p.id = "Running", w.now, w.hex(32)
}

// observe makes a pod's status.
func (p *pod) observe() {
	if p.node == "" {
		p.status = `{"phase":"Pending","qosClass":"Burstable"}`
		return
	}
	var b strings.Builder
	condition := func(kind string, is bool, at time.Time) {
		status := "False"
		if is {
			status = "True"
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"%s","status":"%s","lastProbeTime":null,"lastTransitionTime":"%s"`, kind,
			status, second(at))
		if !is {
			b.WriteString(`,"reason":"ContainersNotReady","message":"containers with unready status: [` +
				strings.Join(p.containers, " ") + `]"`)
		}
		b.WriteByte('}')
	}
	condition("PodReadyToStartContainers", p.ip != "", p.scheduled)
	condition("Initialized", true, p.scheduled)
	condition("Ready", p.ready, p.started)
	condition("ContainersReady", p.ready, p.started)
	condition("PodScheduled", true, p.scheduled)
	conditions := b.String()
	b.Reset()
	for i, name := range p.containers {
		if i > 0 {
			b.WriteByte(',')
		}
		state := `"waiting":{"reason":"ContainerCreating"}`
		switch {
		case p.failing:
			state = fmt.Sprintf(`"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m0s restarting failed `+
				`container=%s pod=%s_%s(%s)"}`, name, p.name, p.namespace, p.uid)
		case p.finished:
			state = fmt.Sprintf(`"terminated":{"exitCode":0,"reason":"Completed","startedAt":"%s","finishedAt":"%s",`+
				`"containerID":"containerd://%s"}`, second(p.started), second(p.started.Add(8*time.Second)), p.id)
		case p.phase == "Running":
			state = `"running":{"startedAt":"` + second(p.started) + `"}`
		}
		last := ""
		if p.restarts > 0 {
			last = fmt.Sprintf(`"terminated":{"exitCode":1,"reason":"Error","startedAt":"%s","finishedAt":"%s",`+
				`"containerID":"containerd://%s"}`, second(p.started.Add(-time.Minute)), second(p.started), p.id)
		}
		fmt.Fprintf(&b, `{"name":"%s","state":{%s},"lastState":{%s},"ready":%t,"restartCount":%d,"image":"%s",`+
			`"imageID":"%s@sha256:%s"`, name, state, last, p.ready, p.restarts, p.image, p.image, p.imageID)
		if p.id != "" {
			fmt.Fprintf(&b, `,"containerID":"containerd://%s"`, p.id)
		}
		fmt.Fprintf(&b, `,"started":%t}`, p.phase == "Running" && !p.failing)
	}
	ips := ""
	if p.ip != "" {
		ips = fmt.Sprintf(`"podIP":"%s","podIPs":[{"ip":"%s"}],`, p.ip, p.ip)
	}
	p.status = fmt.Sprintf(`{"phase":"%s","conditions":[%s],"hostIP":"10.0.%s","hostIPs":[{`+
		`"ip":"10.0.%s"}],%s"startTime":"%s","containerStatuses":[%s],"qosClass":"Burstable"}`,
		p.phase, conditions, hostOf(p.node), hostOf(p.node), ips, second(p.scheduled), b.String())
}

// hostOf is the end of a node's address.
func hostOf(node string) string {
	var n int
	_, _ = fmt.Sscanf(node, "node-%d", &n)
	return fmt.Sprintf("%d.%d", n>>8, n&255)
}

// update is a kubelet that writes a pod's status.
func (w *world) update(p *pod) {
	p.observe()
	w.modify(p.item, w.by(kubelet, "status"))
}

// launch writes a new pod, and what scheduler and kubelet make of it, up to its containers' start.
func (w *world) launch(p *pod, image string, started func()) {
	p.observe()
	w.add(p.item, w.by(controllers, ""))
	w.after(20*time.Millisecond, func() {
		w.bind(p)
		p.observe()
		w.modify(p.item, object.Write{}) // the API does not say who binds
		w.emit(
			p.item, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", p.namespace, p.name, p.node),
			"default-scheduler", "Normal",
		)
		w.after(300*time.Millisecond, func() {
			w.update(p)
			w.emit(
				p.item, "Pulled", fmt.Sprintf("Container image %q already present on machine", image), kubelet,
				"Normal",
			)
			w.after(2*time.Second, func() {
				w.start(p)
				w.emit(p.item, "Created", "Created container: "+p.containers[0], kubelet, "Normal")
				w.emit(p.item, "Started", "Started container "+p.containers[0], kubelet, "Normal")
				w.update(p)
				started()
			})
		})
	})
}

// startPod adds a pod to a replica set. done is called when it is ready.
func (w *world) startPod(rs *replicaSet, done func()) {
	p := w.newPodOf(rs)
	w.launch(p, p.image, func() {
		w.after(10*time.Second, func() {
			p.ready = true
			w.update(p)
			w.report(rs)
			done()
		})
	})
	w.emit(rs.item, "SuccessfulCreate", "Created pod: "+p.name, "replicaset-controller", "Normal")
	w.report(rs)
}

// stopPod deletes a pod of a replica set.
func (w *world) stopPod(p *pod) {
	rs := p.set
	rs.pods = slices.DeleteFunc(rs.pods, func(q *pod) bool { return q == p })
	p.deleting = w.now.Add(30 * time.Second)
	p.generation++
	w.modify(p.item, object.Write{At: w.now.Unix()}) // the API does not say who deletes
	w.emit(p.item, "Killing", "Stopping container "+p.containers[0], kubelet, "Normal")
	w.report(rs)
	w.after(3*time.Second, func() {
		p.ready, p.finished = false, true
		w.update(p)
		w.after(50*time.Millisecond, func() { w.remove(p.item) })
	})
}

// crash is a container that fails and is started again a minute later.
func (w *world) crash() {
	d, _ := pick(w, w.deployments, nil)
	p, ok := pick(w, d.sets[len(d.sets)-1].pods, func(p *pod) bool {
		return p.ready && !p.failing && p.deleting.IsZero()
	})
	if !ok {
		return
	}
	p.ready, p.failing = false, true
	p.restarts++
	w.update(p)
	w.report(p.set)
	back := w.emit(
		p.item, "BackOff",
		fmt.Sprintf(
			"Back-off restarting failed container %s in pod %s_%s(%s)", p.containers[0], p.name, p.namespace, p.uid,
		),
		kubelet, "Warning",
	)
	w.after(20*time.Second, func() {
		w.again(back)
		w.after(40*time.Second, func() {
			if !p.deleting.IsZero() {
				return
			}
			p.ready, p.failing, p.started, p.id = true, false, w.now, w.hex(32)
			w.update(p)
			w.report(p.set)
		})
	})
}

// occurrence is a Kubernetes Event.
type occurrence struct {
	*item
	count                            int
	about                            *item
	reason, message, reporter, level string
	first                            time.Time
}

// emit writes an Event, which the server removes an hour later.
func (w *world) emit(about *item, reason, message, reporter, level string) *occurrence {
	o := &occurrence{
		w.newObject(
			"events", about.namespace, fmt.Sprintf("%s.%016x", about.name, w.now.UnixNano()+int64(w.IntN(1e6))),
		),
		1, about, reason, message, reporter, level, w.now,
	}
	o.observe(w.now)
	w.add(o.item, w.by(reporter, ""))
	w.after(time.Hour, func() { w.remove(o.item) })
	return o
}

// again is an Event that occurs once more.
func (w *world) again(o *occurrence) {
	o.count++
	o.observe(w.now)
	w.modify(o.item, w.by(o.reporter, ""))
}

func (o *occurrence) observe(last time.Time) {
	o.body = fmt.Sprintf(`"involvedObject":{"kind":"%s","namespace":"%s","name":"%s","uid":"%s","apiVersion":"%s",`+
		`"resourceVersion":"%d"},"reason":"%s","message":%q,"source":{"component":"%s"},"firstTimestamp":"%s",`+
		`"lastTimestamp":"%s","count":%d,"type":"%s","eventTime":null,"reportingComponent":"%s","reportingInstance":""`,
		o.about.Kind, o.about.namespace, o.about.name, o.about.uid, o.about.apiVersion, o.about.version, o.reason,
		o.message, o.reporter, second(o.first), second(last), o.count, o.level, o.reporter)
}

// cronJob starts a job now and then.
type cronJob struct {
	namespace, name, podSpec string
	runs                     int
}

func (w *world) newCronJob(d *deployment) *cronJob {
	return &cronJob{d.namespace, d.name + "-" + w.word(), strings.ReplaceAll(strings.ReplaceAll(d.podSpec, "$tag",
		"1.0.0"), `"restartPolicy":"Always"`, `"restartPolicy":"Never"`), 0}
}

// runJob is a job with one pod that succeeds, from its beginning to its removal.
func (w *world) runJob() {
	c, _ := pick(w, w.cronJobs, nil)
	c.runs++
	j := w.newObject("jobs", c.namespace, fmt.Sprintf("%s-%d", c.name, 29400000+c.runs*5))
	labels := fmt.Sprintf(`"batch.kubernetes.io/controller-uid":"%s","batch.kubernetes.io/job-name":"%s",`+
		`"job-name":"%s"`, j.uid, j.name, j.name)
	j.labels, j.generation = labels, 1
	j.body = fmt.Sprintf(`"spec":{"parallelism":1,"completions":1,"backoffLimit":6,"selector":{"matchLabels":{`+
		`"batch.kubernetes.io/controller-uid":"%s"}},"template":{"metadata":{"labels":{%s}},"spec":{%s}},`+
		`"ttlSecondsAfterFinished":100,"completionMode":"NonIndexed","suspend":false}`,
		j.uid, labels, strings.ReplaceAll(c.podSpec, "-$token", ""))
	j.status = `{}`
	w.add(j, w.by(controllers, ""))
	p := w.newPod(j.name+"-"+w.suffix(5), j.name+"-", j)
	p.labels, p.containers, p.image = labels, []string{c.name}, "registry.example.com/"+c.namespace+"/"+c.name
	p.body = `"spec":{` + strings.ReplaceAll(c.podSpec, "$token", w.suffix(5)) + `}`
	w.launch(p, p.image, func() {
		j.status = fmt.Sprintf(`{"startTime":"%s","active":1,"ready":1,"terminating":0,"uncountedTerminatedPods":{}}`,
			second(j.created))
		w.modify(j, w.by(controllers, "status"))
		w.after(8*time.Second, func() {
			p.phase, p.finished = "Succeeded", true
			w.update(p)
			j.status = fmt.Sprintf(`{"conditions":[{"type":"Complete","status":"True","lastProbeTime":"%s",`+
				`"lastTransitionTime":"%s","reason":"CompletionsReached","message":"Reached expected number of `+
				`succeeded pods"}],"startTime":"%s","completionTime":"%s","succeeded":1,"ready":0,"terminating":0,`+
				`"uncountedTerminatedPods":{}}`,
				second(w.now), second(w.now), second(j.created), second(w.now))
			w.modify(j, w.by(controllers, "status"))
			w.emit(j, "Completed", "Job completed", "job-controller", "Normal")
		})
	})
	w.emit(j, "SuccessfulCreate", "Created pod: "+p.name, "job-controller", "Normal")
	w.after(3*time.Minute, func() { w.remove(j); w.remove(p.item) })
}
