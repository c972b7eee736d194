package yamltext

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","resourceVersion":"1","labels":{"app":"web"},
	"annotations":{"example.com/note":"a: b"}},
	"spec":{"replicas":2,"template":{"spec":{"containers":[
	{"name":"proxy","image":"envoy:1.31","args":["--a","--b"],"ports":[{"containerPort":80},{"containerPort":443,"name":"tls"}]},
	{"name":"web","image":"shop/web:1.4.2","env":[{"name":"X","value":"1"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1"}}}],
	"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},
	"status":{"conditions":[{"type":"Available","status":"True"},{"message":"a\nb: c\n\n- d\n","type":"Progressing","status":"True"}],"readyReplicas":2}}`

func difference(t testing.TB, from, to string, colour bool) string {
	t.Helper()
	o := Options{Without: Bookkeeping, Lines: true}
	return string(AppendDiff(nil,
		Side{"deployments.apps shop/web  2026-11-20 14:02:11  seq 1233", []byte(appendYAML(t, from, o))},
		Side{"deployments.apps shop/web  2026-11-20 14:03:40  seq 1240", []byte(appendYAML(t, to, o))}, colour))
}

func TestDiff(t *testing.T) {
	to := strings.NewReplacer(`"1.4.2"`, `"1.4.3"`, "web:1.4.2", "web:1.4.3", `"resourceVersion":"1"`, `"resourceVersion":"2"`,
		`"replicas":2`, `"replicas":5`, `"readyReplicas":2`, `"readyReplicas":3`).Replace(web)
	const want = `--- deployments.apps shop/web  2026-11-20 14:02:11  seq 1233
+++ deployments.apps shop/web  2026-11-20 14:03:40  seq 1240
@@ -8,7 +8,7 @@ spec
   name: web
   namespace: shop
 spec:
-  replicas: 2
+  replicas: 5
   template:
     spec:
       containers:
@@ -24,7 +24,7 @@ spec.template.spec.containers[web]
       - env:
         - name: X
           value: "1"
-        image: shop/web:1.4.2
+        image: shop/web:1.4.3
         name: web
         resources:
           limits:
@@ -48,4 +48,4 @@ status
       - d
     status: "True"
     type: Progressing
-  readyReplicas: 2
+  readyReplicas: 3
`
	if got := difference(t, web, to, false); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := difference(t, web, strings.ReplaceAll(web, `"resourceVersion":"1"`, `"resourceVersion":"2"`), false); got != "" {
		t.Errorf("bookkeeping:\n%s", got)
	}
	coloured := difference(t, web, to, true)
	for _, line := range []string{
		"\x1b[1m--- deployments.apps shop/web  2026-11-20 14:02:11  seq 1233\x1b[m\n", "\x1b[36m@@ -8,7 +8,7 @@\x1b[m spec\n",
		"\n   name: web\n", "\x1b[31m-  replicas: 2\x1b[m\n", "\x1b[32m+  replicas: 5\x1b[m\n",
	} {
		if !strings.Contains(coloured, line) {
			t.Errorf("no %q in %q", line, coloured)
		}
	}
}

// What comes and what goes.
func TestDiffWithNothing(t *testing.T) {
	text := []byte("a: 1\nb:\n- x\n")
	if got := string(AppendDiff(nil, Side{"/dev/null", nil}, Side{"new", text}, false)); got != "--- /dev/null\n+++ new\n@@ -0,0 +1,3 @@\n+a: 1\n+b:\n+- x\n" {
		t.Error(got)
	}
	if got := string(AppendDiff(nil, Side{"old", text}, Side{"/dev/null", nil}, false)); got != "--- old\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a: 1\n-b:\n-- x\n" {
		t.Error(got)
	}
}

// The path of a hunk is that of its first change's parent.
func TestPathOfHunk(t *testing.T) {
	for _, c := range []struct{ was, is, path string }{
		{`"kind":"Deployment"`, `"kind":"Deploymint"`, ""},
		{`"app":"web"`, `"app":"shop"`, "metadata.labels"},
		{`"example.com/note":"a: b"`, `"example.com/note":"a: c"`, "metadata.annotations"},
		{`"--b"`, `"--c"`, "spec.template.spec.containers[proxy].args"},
		{`{"containerPort":80}`, `{"containerPort":80,"protocol":"UDP"}`, "spec.template.spec.containers[proxy].ports[80]"},
		{`{"containerPort":443,"name":"tls"}`, `{"containerPort":444,"name":"tls"}`, "spec.template.spec.containers[proxy].ports[tls]"},
		{`"value":"1"`, `"value":"2"`, "spec.template.spec.containers[web].env[X]"},
		{`{"name":"X","value":"1"}`, `{"name":"X","value":"1"},{"name":"Y","value":"2"}`, "spec.template.spec.containers[web].env[Y]"},
		{`"memory":"1Gi"`, `"memory":"2Gi"`, "spec.template.spec.containers[web].resources.limits"},
		{`a\nb: c`, `a\nb: d`, "status.conditions[Progressing].message"},
		{`- d`, `- e`, "status.conditions[Progressing].message"},
		{`"readyReplicas":2`, `"readyReplicas":3`, "status"},
	} {
		got := difference(t, web, strings.Replace(web, c.was, c.is, 1), false)
		_, header, _ := strings.Cut(got, "@@ ")
		_, header, _ = strings.Cut(header, " @@")
		if path, _, _ := strings.Cut(header, "\n"); strings.TrimPrefix(path, " ") != c.path {
			t.Errorf("%s: %q, want %q:\n%s", c.is, path, c.path, got)
		}
	}
}

func TestOutline(t *testing.T) {
	const text = `"a.b/c":
- - 1
  - x: |
      y: z

      q: 1
    "n~o": 'it: is
      folded: text'
- - 'a: b'
"": 5
k:
- ""
- {}
`
	var got strings.Builder
	o := newOutline([]byte(text))
	for i := range strings.Count(text, "\n") {
		fmt.Fprintln(&got, o.path(i))
	}
	const want = `
["a.b/c"][0]
["a.b/c"][0][1]
["a.b/c"][0][1].x
["a.b/c"][0][1].x
["a.b/c"][0][1].x
["a.b/c"][0][1]
["a.b/c"][0][1].n~o
["a.b/c"][1]


k
k
`
	if got.String() != want {
		t.Error(got.String())
	}
	for _, line := range []int{-1, 13} {
		if o.path(line) != "" {
			t.Error(line)
		}
	}
}

// No text makes it panic, and what is shown is printable.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(web), []byte("- - a: |\n  b\n\x1b[31m"), true)
	f.Fuzz(func(t *testing.T, from, to []byte, colour bool) {
		got := AppendDiff(nil, Side{"a", from}, Side{"b", to}, false)
		if bytes.ContainsAny(got, "\x1b\r\x00\u202e\u009b") {
			t.Errorf("%q", got)
		}
		if (len(got) == 0) != bytes.Equal(from, to) {
			t.Errorf("%q", got)
		}
	})
}

// Lines that are all the same, or all others, take no quadratic time, which would be hours.
func TestLargeDiff(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const lines = 300_000
	same := bytes.Repeat([]byte("- enabled: true\n"), lines)
	var other []byte
	for i := range lines {
		other = fmt.Appendf(other, "- item-%d\n", (i*7919)%lines)
	}
	for _, c := range [][2][]byte{{same, same[16*1000:]}, {same, other}, {other, append(other[len(other)/2:len(other):len(other)], other[:len(other)/2]...)}} {
		if len(AppendDiff(nil, Side{"a", c[0]}, Side{"b", c[1]}, true)) == 0 {
			t.Error("nothing")
		}
	}
}
