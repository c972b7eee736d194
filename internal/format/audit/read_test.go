package audit

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// event is what an API server writes of an update of a Secret.
const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"3f1c","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/secrets/db?fieldManager=kubectl-edit","verb":"patch","user":{"username":"dev-7@example.com","uid":"7","groups":["dev","system:authenticated"]},"impersonatedUser":{"username":"root"},"sourceIPs":["10.0.0.7","10.0.0.1"],"userAgent":"kubectl/v1.37 (linux/amd64)","objectRef":{"resource":"secrets","namespace":"shop","name":"db","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestObject":{"data":{"password":"aHVudGVyMg=="}},"responseObject":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db","namespace":"shop","uid":"u1","resourceVersion":"205","managedFields":[{"manager":"kubectl-edit","time":"2026-11-22T01:54:12Z"}]},"data":{"password":"aHVudGVyMg=="}},"requestReceivedTimestamp":"2026-11-22T01:54:12.100000Z","stageTimestamp":"2026-11-22T01:54:12.105000Z","annotations":{"authorization.k8s.io/decision":"allow"}}`

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

var patched = Request{
	Person: Person{
		User: "dev-7@example.com", Groups: []string{"dev", "system:authenticated"}, Impersonated: "root", Agent: "kubectl/v1.37 (linux/amd64)",
		Addresses: []string{"10.0.0.7", "10.0.0.1"}, Verb: "patch", AuditID: "3f1c",
	},
	Received: at("2026-11-22T01:54:12.1Z"), Answered: at("2026-11-22T01:54:12.105Z"), Resource: "secrets", Namespace: "shop", Name: "db",
	Manager: "kubectl-edit", UID: "u1", Version: "205", Touched: at("2026-11-22T01:54:12Z"), Whole: true,
}

// read reads a log; damaged has the numbers of its damaged lines.
func read(t *testing.T, log string) (all []Request, damaged []int, n Count) {
	t.Helper()
	n, err := Read(strings.NewReader(log), func(r Request) { all = append(all, r) }, func(line int, _ string) { damaged = append(damaged, line) })
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != n.Writes || len(damaged) != n.Damaged {
		t.Errorf("%d requests, %d damaged lines: %+v", len(all), len(damaged), n)
	}
	return all, damaged, n
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func indented(text string) string {
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "    "); err != nil {
		panic(err)
	}
	return out.String()
}

// forms are the ways in which logs have an event, from the public documentation of clouds and tools.
func forms() map[string]string {
	cloudwatch := `{"logStreamName":"kube-apiserver-audit-0a1b","timestamp":1795312452100,"message":` + quoted(event) + `,"ingestionTime":1795312455000,"eventId":"38"}`
	diagnostic := `{"time":"2026-11-22T01:54:12.1Z","resourceId":"/SUBSCRIPTIONS/S/…/PROD","category":"kube-audit-admin","operationName":"Microsoft.ContainerService/managedClusters/diagnosticLogs/Read","properties":{"log":` + quoted(event+"\n") + `,"stream":"stdout","pod":"kube-apiserver-1"}}`
	table := strings.NewReplacer(`"auditID"`, `"AuditId"`, `"stage"`, `"Stage"`, `"requestURI"`, `"RequestUri"`, `"verb"`, `"Verb"`, `"user"`, `"User"`, `"impersonatedUser"`, `"ImpersonatedUser"`,
		`"sourceIPs"`, `"SourceIps"`, `"userAgent"`, `"UserAgent"`, `"objectRef"`, `"ObjectRef"`, `"responseStatus"`, `"ResponseStatus"`, `"requestObject"`, `"RequestObject"`, `"responseObject"`, `"ResponseObject"`,
		`"requestReceivedTimestamp"`, `"RequestReceivedTime"`, `"stageTimestamp"`, `"StageReceivedTime"`, `"kind":"Event","apiVersion":"audit.k8s.io/v1",`, `"Type":"AKSAuditAdmin",`).Replace(event)
	return map[string]string{
		"a line":                   event + "\n",
		"without the end":          event,
		"spaces":                   " \r\n" + event + " \r\n\r\n",
		"a list":                   `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + event + `]}`,
		"an array":                 `[` + event + `]`,
		"indented":                 indented(event),
		"an array over lines":      "[\n  " + event + "\n]\n",
		"an indented array":        indented(`[` + event + `]`),
		"a container's log":        "2026-11-22T01:54:12.105123456Z stdout F " + event + "\n",
		"docker":                   `{"log":` + quoted(event+"\n") + `,"stream":"stdout","time":"2026-11-22T01:54:12.1Z"}`,
		"CloudWatch":               `{"events":[` + cloudwatch + `],"searchedLogStreams":[]}`,
		"CloudWatch, indented":     indented(`{"events":[` + cloudwatch + `],"searchedLogStreams":[]}`),
		"a subscription":           `{"messageType":"DATA_MESSAGE","owner":"1","logGroup":"/aws/eks/prod/cluster","logStream":"kube-apiserver-audit-0a1b","subscriptionFilters":["f"],"logEvents":[{"id":"3","timestamp":1795312452100,"message":` + quoted(event) + `}]}`,
		"several without an end":   `{"messageType":"CONTROL_MESSAGE","logEvents":[]}{"messageType":"DATA_MESSAGE","logStream":"kube-apiserver-audit-0a1b","logEvents":[{"message":` + quoted(event) + `}]}`,
		"an export to S3":          "2026-11-22T01:54:12.100Z " + event + "\n",
		"Logs Insights":            `{"results":[[{"field":"@timestamp","value":"2026-11-22 01:54:12.100"},{"field":"@message","value":` + quoted(event) + `},{"field":"@ptr","value":"x"}]],"status":"Complete"}`,
		"Azure, a storage account": diagnostic + "\n",
		"Azure, an event hub":      `{"records":[` + diagnostic + `]}`,
		"Azure, a query":           indented(`[{"TimeGenerated":"2026-11-22T01:54:12.1Z","Category":"kube-audit-admin","log_s":` + quoted(event) + `}]`),
		"Azure, the table":         table,
		"a collector's record":     `{"log":` + quoted(event) + `,"kubernetes":{"container_name":"kube-apiserver"}}`,
		"a record that holds it":   `{"message":` + event + `}`,
	}
}

// TestForms reads an event in each form, alone, twice, and as gzip.
func TestForms(t *testing.T) {
	for name, log := range forms() {
		for _, twice := range []bool{false, true} {
			want := []Request{patched}
			if twice {
				log, want = strings.TrimSuffix(log, "\n")+"\n"+log, append(want, patched)
			}
			got, damaged, _ := read(t, log)
			if diff := cmp.Diff(want, got); diff != "" || len(damaged) > 0 {
				t.Errorf("%s, twice %t: lines %v are damaged (-want +got):\n%s", name, twice, damaged, diff)
			}
			var zipped bytes.Buffer
			for range 2 { // of two members
				z := gzip.NewWriter(&zipped)
				io.WriteString(z, strings.TrimSuffix(log, "\n")+"\n")
				z.Close()
			}
			if got, _, _ := read(t, zipped.String()); len(got) != 2*len(want) {
				t.Errorf("%s, gzip: %d requests", name, len(got))
			}
			_, err := Read(bytes.NewReader(zipped.Bytes()[:zipped.Len()-3]), func(Request) {}, func(int, string) {})
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, gzip that is cut off: %v", name, err)
			}
		}
	}
}

func TestGoogle(t *testing.T) {
	entry := func(method, resource, status string) string {
		return `{"insertId":"i1","logName":"projects/p/logs/cloudaudit.googleapis.com%2Factivity","operation":{"first":true,"id":"3f1c","last":true,"producer":"k8s.io"},"protoPayload":{"@type":"type.googleapis.com/google.cloud.audit.AuditLog","authenticationInfo":{"principalEmail":"dev-7@example.com"},"methodName":"` + method +
			`","request":{"@type":"core.k8s.io/v1.Secret","data":{"password":"aHVudGVyMg=="}},"requestMetadata":{"callerIp":"10.0.0.7","callerSuppliedUserAgent":"kubectl/v1.37"},"resourceName":"` + resource +
			`","response":{"@type":"core.k8s.io/v1.Secret","metadata":{"name":"db","uid":"u1","resourceVersion":"205"},"data":{"password":"aHVudGVyMg=="}},"serviceName":"k8s.io","status":` + status + `},"receiveTimestamp":"2026-11-22T01:54:15Z","resource":{"type":"k8s_cluster"},"timestamp":"2026-11-22T01:54:12.1Z"}`
	}
	want := Request{
		Person: Person{User: "dev-7@example.com", Agent: "kubectl/v1.37", Addresses: []string{"10.0.0.7"}, Verb: "update", AuditID: "3f1c"}, Received: at("2026-11-22T01:54:12.1Z"), Answered: at("2026-11-22T01:54:15Z"),
		Resource: "secrets", Namespace: "shop", Name: "db", UID: "u1", Version: "205", Whole: true,
	}
	for _, log := range []string{entry("io.k8s.core.v1.secrets.update", "core/v1/namespaces/shop/secrets/db", "{}"), indented("[" + entry("io.k8s.core.v1.secrets.update", "core/v1/namespaces/shop/secrets/db", `{"code":0}`) + "]")} {
		if got, _, _ := read(t, log); cmp.Diff([]Request{want}, got) != "" {
			t.Error(cmp.Diff([]Request{want}, got))
		}
	}
	for resource, want := range map[string][5]string{
		"apps/v1/namespaces/shop/deployments/web/scale": {"apps", "shop", "deployments", "web", "scale"},
		"core/v1/namespaces/shop":                       {"", "", "namespaces", "shop", ""},
		"core/v1/nodes/a/status":                        {"", "", "nodes", "a", "status"},
		"core/v1/namespaces/shop/finalize":              {"", "", "namespaces", "shop", "finalize"},
	} {
		got, _, _ := read(t, entry("io.k8s.core.v1.x.patch", resource, "{}"))
		if len(got) != 1 || [5]string{got[0].Group, got[0].Namespace, got[0].Resource, got[0].Name, got[0].Subresource} != want {
			t.Errorf("%s: %+v", resource, got)
		}
	}
	for _, log := range []string{
		entry("io.k8s.core.v1.secrets.get", "core/v1/namespaces/shop/secrets/db", "{}"), entry("io.k8s.core.v1.secrets.update", "core/v1/namespaces/shop/secrets/db", `{"code":7}`),
		strings.Replace(entry("io.k8s.core.v1.secrets.update", "core/v1/namespaces/shop/secrets/db", "{}"), `"serviceName":"k8s.io"`, `"serviceName":"container.googleapis.com"`, 1),
	} {
		if got, _, _ := read(t, log); len(got) > 0 {
			t.Errorf("%+v", got)
		}
	}
}

// TestNoWrites reads events of requests that have written nothing, and records in which somebody else says that one
// has.
func TestNoWrites(t *testing.T) {
	with := func(old, is string) string {
		if !strings.Contains(event, old) {
			t.Fatal(old)
		}
		return strings.Replace(event, old, is, 1)
	}
	for name, log := range map[string]string{
		"refused":               with(`"code":200`, `"code":409`),
		"a dry run":             with(`fieldManager=kubectl-edit`, `dryRun=All&fieldManager=kubectl-edit`),
		"a dry run in the body": with(`"requestObject":{`, `"requestObject":{"dryRun":["All"],`),
		"an eviction's dry run": with(`"requestObject":{`, `"requestObject":{"deleteOptions":{"dryRun":["All"]},`),
		"received":              with(`"ResponseComplete"`, `"RequestReceived"`),
		"started":               with(`"ResponseComplete"`, `"ResponseStarted"`),
		"a read":                with(`"patch"`, `"get"`),
		"no resource":           with(`"resource":"secrets",`, ``),
		"another kind of Event": with(`"kind":"Event"`, `"kind":"Pod"`),
		"another log stream":    `{"logStreamName":"authenticator-0a1b","message":` + quoted(event) + `}`,
		"another category":      `{"category":"kube-scheduler","properties":{"log":` + quoted(event) + `}}`,
		"another container":     `{"log":` + quoted(event) + `,"kubernetes":{"container_name":"web","pod_name":"audit"}}`,
		"a container of ECS":    `{"message":` + quoted(event) + `,"kubernetes":{"container":{"name":"web"}}}`,
		"an Event":              `{"kind":"Event","apiVersion":"v1","message":` + quoted(event) + `}`,
		"in an object":          `{"kind":"ConfigMap","data":{"message":` + quoted(event) + `}}`,
		"text":                  `{"textPayload":` + quoted(event) + `}`,
		"a pod's JSON":          `{"jsonPayload":` + event + `}`,
		"within an event":       strings.Replace(with(`"patch"`, `"get"`), `"requestObject":{`, `"requestObject":{"items":[`+event+`],`, 1),
	} {
		if got, damaged, _ := read(t, log); len(got) > 0 || len(damaged) > 0 {
			t.Errorf("%s: %+v, %v", name, got, damaged)
		}
	}
}

// TestDamage damages lines in every way: they are named, and each other line is read.
func TestDamage(t *testing.T) {
	defer func(was int) { maxValue = was }(maxValue)
	maxValue = 64 << 10
	for name, bad := range map[string]string{
		"text":                 "panic: out of memory",
		"zeros":                strings.Repeat("\x00", 1000),
		"cut off":              event[:400],
		"cut off in a string":  event[:140],
		"another's end":        event[len(event)-200:],
		"one byte":             "{\"",
		"no JSON":              `{"kind":"Event",}`,
		"too long":             `{"kind":"` + strings.Repeat("x", 100<<10) + `"}`,
		"a message cut off":    `{"logStreamName":"kube-apiserver-audit-1","message":` + quoted(event[:600]) + `}`,
		"deep":                 strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat(`}`, 20000),
		"a record without end": "{",
	} {
		log := event + "\n" + bad + "\n" + event + "\n" + event + "\n"
		if got, damaged, _ := read(t, log); len(got) != 3 || len(damaged) != 1 || damaged[0] != 2 {
			t.Errorf("%s: %d requests, lines %v are damaged", name, len(got), damaged)
		}
	}
	for end := 1; end < len(event); end += 7 { // a crash, after which the server goes on in the same line
		log := event[:end] + event + "\n" + event + "\n"
		if got, damaged, _ := read(t, log); len(got) != 2 || len(damaged) != 1 {
			t.Fatalf("after %d bytes: %d requests, lines %v are damaged", end, len(got), damaged)
		}
	}
}

// FuzzRead reads bytes that need not be a log. What it returns never has a value of an object.
func FuzzRead(f *testing.F) {
	for _, log := range forms() {
		f.Add([]byte(log))
	}
	f.Add([]byte(event[:700] + "\n{\n\"a\":[\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		n := 0
		count, err := Read(bytes.NewReader(log), func(r Request) {
			n++
			if len(r.User)+len(r.Agent)+len(r.Name) > 5*maxText || len(r.Groups) > 100 || r.User == "" || r.Received.IsZero() {
				t.Errorf("%+v", r)
			}
		}, func(line int, why string) {
			if line < 1 || line > bytes.Count(log, []byte{'\n'})+1 && !bytes.HasPrefix(log, []byte{0x1f, 0x8b}) || why == "" {
				t.Errorf("line %d: %s", line, why)
			}
		})
		if n != count.Writes || count.Writes > count.Events {
			t.Errorf("%+v, %v", count, err)
		}
	})
}

// TestNoValues looks for what objects have in everything that is kept of a request.
func TestNoValues(t *testing.T) {
	for name, log := range forms() {
		got, _, _ := read(t, log)
		if text := fmt.Sprintf("%+v", got); strings.Contains(text, "aHVudGVyMg") || strings.Contains(text, "password") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
