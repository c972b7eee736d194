// Package eventtest makes the JSON that an API server would send, for tests
// and benchmarks. The same arguments always give the same bytes.
package eventtest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// Pod returns a running pod of just about sizeBytes, as compact JSON with
// managedFields; 1,700 is the least. About a third of it are managedFields, as
// on a real server. i tells pods apart.
func Pod(sizeBytes, i int) []byte {
	// Environment variables grow the spec and the managedFields together; what
	// is then missing becomes one annotation.
	envs := 0
	if spare := sizeBytes - len(pod(i, 0, 0)); spare > 0 {
		per := len(pod(i, 11, 0)) - len(pod(i, 10, 0))
		envs = spare / per
	}
	b := pod(i, envs, 0)
	for envs > 0 && len(b) > sizeBytes {
		envs--
		b = pod(i, envs, 0)
	}
	const frame = len(`"example.com/build":"",`)
	if pad := sizeBytes - len(b) - frame; pad > 0 {
		b = pod(i, envs, pad)
	}
	return b
}

func pod(i, envs, pad int) []byte {
	var w strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&w, format, args...) }
	p(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s","generateName":"web-6d4cf56db6-",`+
		`"namespace":"shop-%d","uid":"%s","resourceVersion":"%d","generation":%d,`+
		`"creationTimestamp":"2026-11-20T16:09:58Z",`,
		podName(i), i%10, uid(i), 100000+i, 1+i%3)
	p(`"labels":{"app":"web","pod-template-hash":"6d4cf56db6"},"annotations":{`)
	if pad > 0 {
		p(`"example.com/build":"%s",`, strings.Repeat("b7", pad)[:pad])
	}
	p(`"prometheus.io/scrape":"true"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",`+
		`"name":"web-6d4cf56db6","uid":"%s","controller":true,"blockOwnerDeletion":true}],`, uid(i%10+900000))
	p(`"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1",`+
		`"time":"2026-11-20T16:09:58Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},`+
		`"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%s\"}":{`+
		`}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{".":{}`, uid(i%10+900000))
	for e := range envs {
		p(`,"k:{\"name\":\"%s\"}":{".":{},"f:name":{},"f:value":{}}`, env(e))
	}
	p(`},"f:image":{},"f:name":{},"f:resources":{}}},"f:restartPolicy":{}}}},`)
	p(`{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-20T16:10:%02dZ",`+
		`"fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},`+
		`"f:status":{},"f:type":{}}},"f:phase":{},"f:podIP":{}}},"subresource":"status"}]},`, i%60)
	p(`"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.%d","ports":[{`+
		`"containerPort":8080,"protocol":"TCP"}],"env":[`, i%20)
	for e := range envs {
		if e > 0 {
			p(`,`)
		}
		p(`{"name":"%s","value":"value of %s in pod %d"}`, env(e), strings.ToLower(env(e)), i)
	}
	p(`],"resources":{"limits":{"memory":"256Mi"}},"imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always",`+
		`"nodeName":"node-%d","priority":0},`, i%50)
	p(`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True",`+
		`"lastTransitionTime":"2026-11-20T16:10:%02dZ"}],"hostIP":"10.0.0.%d","podIP":"10.42.%d.%d",`+
		`"startTime":"2026-11-20T16:09:58Z","qosClass":"Burstable"}}`, i%60, i%50, i/250%250, i%250)
	return []byte(w.String())
}

func podName(i int) string { return fmt.Sprintf("web-6d4cf56db6-%05d", i) }
func env(e int) string     { return fmt.Sprintf("SHOP_SETTING_%03d", e) }

func uid(i int) string {
	return fmt.Sprintf("%08x-7c1e-4a5b-9d3f-%012x", uint32(i)*2654435761, i)
}

// WatchStream returns a watch response of n MODIFIED pods, one compact line
// each, as an API server sends it.
func WatchStream(n, size int) []byte {
	var b []byte
	for i := range n {
		b = append(b, `{"type":"MODIFIED","object":`...)
		b = append(b, Pod(size, i)...)
		b = append(b, '}', '\n')
	}
	return b
}

// EachSize runs a benchmark for pods of 2, 6 and 60 KB.
func EachSize(b *testing.B, f func(b *testing.B, size int)) {
	for _, size := range []int{2000, 6000, 60000} {
		b.Run(fmt.Sprintf("pod=%dKB", size/1000), func(b *testing.B) {
			b.SetBytes(int64(len(WatchStream(64, size)) / 64))
			b.ReportAllocs()
			f(b, size)
		})
	}
}

// SecretText is what every value of every Secret contains, plain and in
// base64: it must not be found in any output.
const SecretText = "hunter2hunter2"

// Secret returns a Secret that was made by kubectl apply.
func Secret(i int) []byte {
	value := base64.StdEncoding.EncodeToString([]byte(SecretText))
	return fmt.Appendf(nil, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db-%d","namespace":"shop-%d",`+
		`"uid":"%s","resourceVersion":"%d","creationTimestamp":"2026-11-20T16:09:58Z","annotations":{`+
		`"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"data\":{`+
		`\"password\":\"%s\"},\"kind\":\"Secret\",\"metadata\":{\"annotations\":{`+
		`},\"name\":\"db-%d\",\"namespace\":\"shop-%d\"},\"stringData\":{\"user\":\"%s\"}}\n"},"managedFields":[{`+
		`"manager":"kubectl-client-side-apply","operation":"Update","apiVersion":"v1","time":"2026-11-20T16:09:58Z",`+
		`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:password":{},"f:user":{}},"f:type":{}}}]},"data":{`+
		`"password":"%s","user":"%s"},"type":"Opaque"}`,
		i, i%10, uid(i), 200000+i, value, i, i%10, SecretText, value, value)
}

// Event returns a Kubernetes Event of the core group.
func Event(i int) []byte {
	return fmt.Appendf(nil, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"%s.%016x","namespace":"shop-%d",`+
		`"uid":"%s","resourceVersion":"%d","creationTimestamp":"2026-11-20T16:09:58Z","managedFields":[{`+
		`"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-20T16:10:22Z",`+
		`"fieldsType":"FieldsV1","fieldsV1":{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},`+
		`"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}}]},`+
		`"involvedObject":{"kind":"Pod","namespace":"shop-%d","name":"%s","uid":"%s","apiVersion":"v1",`+
		`"resourceVersion":"%d","fieldPath":"spec.containers{web}"},"reason":"BackOff","message":"Back-off `+
		`restarting failed container web in pod %s","source":{"component":"kubelet","host":"node-%d"},`+
		`"firstTimestamp":"2026-11-20T16:09:58Z","lastTimestamp":"2026-11-20T16:10:22Z","count":%d,"type":"Warning",`+
		`"eventTime":null,"reportingComponent":"kubelet","reportingInstance":"node-%d"}`,
		podName(i), 0x17e0000000000000+int64(i), i%10, uid(i+500000), 300000+i, i%10, podName(i), uid(i), 100000+i,
		podName(i), i%50, 1+i%9, i%50)
}

// ConfigMap returns a config map of just about size bytes; 500 is the least.
func ConfigMap(size, i int) []byte {
	render := func(pad int) []byte {
		return fmt.Appendf(nil,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings-%d","namespace":"shop-%d","uid":"%s",`+
				`"resourceVersion":"%d","creationTimestamp":"2026-11-20T16:09:58Z","managedFields":[{`+
				`"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-11-20T16:09:58Z",`+
				`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:settings.yaml":{}}}}]},"data":{`+
				`"settings.yaml":"%s"}}`, i, i%10, uid(i+700000), 400000+i,
			strings.Repeat(`retries: 3\n`, pad/12+1)[:pad/12*12])
	}
	base := len(render(0))
	return render(max(0, size-base))
}
