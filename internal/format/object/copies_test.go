package object

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
)

// secretObject is a Secret as a server sends it.
func secretObject(t *testing.T, annotations, values map[string]string) string {
	t.Helper()
	data := make(map[string][]byte)
	for key, v := range values {
		data[key] = []byte(v)
	}
	b, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": data,
		"metadata": map[string]any{"name": "db-login", "namespace": "shop", "uid": "u", "resourceVersion": "7",
			"annotations": annotations},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// annotationsOf are those in a line's object.
func annotationsOf(t *testing.T, line string) map[string]string {
	t.Helper()
	var l struct {
		Object struct {
			Metadata struct{ Annotations map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatal(err)
	}
	return l.Object.Metadata.Annotations
}

func compressed(t *testing.T, text string, with func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := with(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipped(t *testing.T, text string) string {
	return compressed(t, text, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("original")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAnnotationsThatCopyAreRedacted(t *testing.T) {
	const (
		password = "s3cr3t-Pa55\"w\\rd&"
		key      = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ\n-----END KEY-----\n"
		token    = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJidWlsZGVyIn0.c2lnbmF0dXJl"
	)
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	wrapped := func(s string) (lines string) {
		for ; len(s) > 20; s = s[20:] {
			lines += s[:20] + "\n  "
		}
		return lines + s
	}
	values := map[string]string{
		"password": password, "tls.key": key, "newline": "trailing-newline\n", "pin": "417", "name": "db-login",
		"namespace": "shop", "empty": "", "blank": " \n",
		".dockercfg": `{"registry:5000":{"username":"serviceaccount","password":"` + token + `","auth":"` +
			b64("serviceaccount:"+token) + `"}}`,
		"config": "url=postgres://app:0ther-Passw0rd@db/shop\n",
		"phrase": "two words & ünïcode",
		"words":  "two plain words",
		"binary": "\x00\xff\x10 \x80binary\n\x01",
	}
	manifest := `{"v":{"password":` + quoted(password) + `}}`
	redactedOnes := map[string]string{
		"plain":              password,
		"within":             "the password is " + password + ".",
		"as it stands":       b64(password),
		"within, as it is":   "password=" + b64(password) + ";user=app",
		"after a slash":      "base64/" + b64(password),
		"after text":         "x" + b64(password),
		"url alphabet":       base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe\xfd" + values["binary"])),
		"binary":             b64(values["binary"]),
		"no padding":         base64.RawStdEncoding.EncodeToString([]byte(password)),
		"in lines":           wrapped(b64("user:" + password + ":more")),
		"twice":              b64(b64(password)),
		"thrice":             b64(b64(b64(password))),
		"json":               manifest,
		"json with base64":   `{"password":"` + b64(password) + `"}`,
		"json in json":       quoted(manifest),
		"json in json twice": quoted(`{"a":` + quoted(manifest) + `}`),
		"base64 of json":     b64(manifest),
		"go quoted":          fmt.Sprintf("%q", password),
		"unicode escapes": `{"a":"` +
			strings.Replace(strings.Trim(quoted(password), `"`), "s3", `\u0073\u0033`, 1) + `"}`,
		"url":                  "https://app:" + url.PathEscape(password) + "@db",
		"form":                 "token=" + url.QueryEscape("two words & ünïcode") + "&x=y",
		"form twice":           url.QueryEscape(url.QueryEscape("two words & ünïcode")),
		"form, no escapes":     "two+plain+words",
		"hex":                  hex.EncodeToString([]byte(password)),
		"hex, upper case":      strings.ToUpper(hex.EncodeToString([]byte(password))),
		"hex after a digit":    "x1" + hex.EncodeToString([]byte(password)),
		"hex before a digit":   hex.EncodeToString([]byte(password)) + "0",
		"hex of json, short":   `\x` + hex.EncodeToString([]byte(`{"pin":"417"}`)),
		"hex of base64":        hex.EncodeToString([]byte(b64(password))),
		"gzip":                 b64(gzipped(t, manifest)),
		"gzip after text":      "version-1/" + b64(gzipped(t, manifest)),
		"gzip, cut":            b64(gzipped(t, strings.Repeat(manifest, 100)))[:120],
		"zlib":                 b64(compressed(t, manifest, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })),
		"zip":                  b64(zipped(t, manifest)),
		"gzip in base64 twice": b64(b64(gzipped(t, b64(manifest)))),
		"unknown compression":  b64("\x28\xb5\x2f\xfd" + "some frames of zstd"),
		"bomb":                 b64(gzipped(t, strings.Repeat("\x00", maxInflated+1))),
		"too many encodings":   strings.Repeat(`\`, 1<<12),
		"yaml":                 "v:\n  tls.key: |\n    " + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n    ") + "\n",
		"json of lines":        quoted(key),
		"without newline":      "trailing-newline",
		"short":                "417",
		"short in json":        `{"pin":"417"}`,
		"short, encoded":       b64("417"),
		"of a registry":        token,
		"of a registry, in":    "Bearer " + token,
		"part":                 "postgres://app:0ther-Passw0rd@db/shop",

		// The values of an earlier version.
		"object":         `{"apiVersion":"v1","kind":"Secret","metadata":{},"data":{"password":"b2xk"}}`,
		"object in yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: b2xk\n",
		"data":           `{"data": {"password":"b2xk"}}`,
		"object, gzip":   b64(gzipped(t, `{"stringData":{"password":"old"}}`)),

		"kapp.k14s.io/original":                       "{}",
		"kapp.k14s.io/original-diff":                  "x",
		"openshift.io/token-secret.value":             "x",
		"objectset.rio.cattle.io/applied":             "H4sIAAAA",
		"banzaicloud.com/last-applied":                "UEsDBBQ",
		"app.oam.dev/last-applied-configuration":      "x",
		"kopf.zalando.org/last-handled-configuration": "x",
		"k8s.io/initial-events-end":                   password,
	}
	left := map[string]string{
		"mine": "stays", "empty": "", "blank": " ", "number": "4171", "pinned": "x417x", "namespace": "shop",
		"name": "db-login", "both": "shop/db-login",
		"encoded name": b64("db-login"),
		"hash":         "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"uid":          "1fe4b2f8-dcde-4710-91df-c352aafd0b06", "time": "2026-11-22T01:54:11Z", "percent": "50% of %zz",
		"zlib or not": "x^is no zlib", "gzip or not": b64("\x1f\x8b\x08 is none"),
		"json":                                `{"replicas":3,"labels":["a","b"],"text":"line\nline","path":"C:\\temp"}`,
		"kubernetes.io/service-account.name":  "builder",
		"reconcile.external-secrets.io/hash":  "a4be1d2c7f",
		"cert-manager.io/alt-names":           "shop.example.com,www.shop.example.com",
		"openshift.io/token-secret.name":      "builder-token-x7k2p",
		"kapp.k14s.io/identity":               "v1;shop//Secret/db-login;v1",
		"words":                               strings.Repeat("nothing of it is in a long description of the thing. ", 250),
		"a reference":                         `{"apiVersion":"v1","kind":"Service","name":"db"}`,
		"encoded text that has nothing of it": b64(strings.Repeat("nothing of it is to be seen in a long description. ", 50)),
	}
	// "json" and "empty" are in both: the prefix tells them apart.
	annotations, want := map[string]string{}, map[string]string{}
	for name, v := range redactedOnes {
		if !strings.Contains(name, "/") {
			name = "redacted: " + name
		}
		annotations[name], want[name] = v, "REDACTED"
	}
	for name, v := range left {
		if !strings.Contains(name, "/") {
			name = "left: " + name
		}
		annotations[name], want[name] = v, v
	}
	for name, v := range annotations {
		t.Run(name, func(t *testing.T) {
			r := mustRenderer(t, podSource, Shape{Secret: true})
			in := secretObject(t, map[string]string{name: v, "other": "stays"}, values)
			expected := map[string]string{name: want[name], "other": "stays"}
			for _, typ := range []line.Type{line.Added, line.Modified, line.Deleted} {
				if got := annotationsOf(t, lineOf(t, r, typ, in)); !maps.Equal(got, expected) {
					t.Errorf("%s has %q, want %q", typ, got, expected)
				}
			}
			// Scanned again, as what is stored of a version is, it reads the same.
			var o, again Object
			if err := r.Scan([]byte(in), &o); err != nil {
				t.Fatal(err)
			}
			shaped := o.AppendShaped(nil)
			if err := r.Scan(shaped, &again); err != nil || !bytes.Equal(again.AppendShaped(nil), shaped) {
				t.Errorf("%v: again it is %s, was %s", err, again.AppendShaped(nil), shaped)
			}
		})
	}
	t.Run("metadata", func(t *testing.T) {
		r := mustRenderer(t, podSource, Shape{Secret: true})
		var o Object
		if err := r.Scan([]byte(secretObject(t, annotations, values)), &o); err != nil {
			t.Fatal(err)
		}
		b, err := r.AppendLine(line.AppendSeq(nil, 1),
			Line{Type: line.Added, Origin: line.FromWatch, Received: time.Unix(1, 0), Payload: MetadataOnly}, &o)
		if err != nil {
			t.Fatal(err)
		}
		if got := annotationsOf(t, string(b)); len(got) != len(annotations) || !maps.Equal(got, want) {
			for name := range annotations {
				if got[name] != want[name] {
					t.Errorf("%s is %.50q", name, got[name])
				}
			}
			t.Errorf("%d annotations, want %d", len(got), len(annotations))
		}
	})
}

// The order of members, repeated keys, stringData, and annotations that are no strings.
func TestAnnotationsThatCopyWhereverTheyStand(t *testing.T) {
	secret, redact := Shape{Secret: true}, Shape{Redact: []string{"data.password", "spec.env"}}
	for name, c := range map[string]struct {
		shape    Shape
		in, want string
	}{
		"before data": {
			secret, `{"metadata":{"annotations":{"a":"hunter2","b":"c"}},"data":{"p":"aHVudGVyMg=="}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","b":"c"}},"data":{"p":"REDACTED"}}`,
		},
		"after data": {
			secret, `{"data":{"p":"aHVudGVyMg=="},"metadata":{"annotations":{"b":"c","a":"hunter2"}}}`,
			`{"data":{"p":"REDACTED"},"metadata":{"annotations":{"b":"c","a":"REDACTED"}}}`,
		},
		"stringData": {
			secret, `{"stringData":{"p":"hunter2"},"metadata":{"annotations":{"a":"hunter2","b":"aHVudGVyMg=="}}}`,
			`{"stringData":{"p":"REDACTED"},"metadata":{"annotations":{"a":"REDACTED","b":"REDACTED"}}}`,
		},
		"repeated": {
			secret,
			`{"metadata":{"annotations":{"a":"hunter1","a":"hunter2"},"annotations":{"a":"hunter1"}},` +
				`"data":{"p":"aHVudGVyMQ=="},"data":{"p":"aHVudGVyMg=="},"metadata":{"annotations":{"a":"hunter2"}}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","a":"REDACTED"},"annotations":{"a":"REDACTED"}},` +
				`"data":{"p":"REDACTED"},"data":{"p":"REDACTED"},"metadata":{"annotations":{"a":"REDACTED"}}}`,
		},
		"escapes": {
			secret, `{"metadata":{"annotati\u006fns":{"a":"\u0068unter2"}},"data":{"p":"\u0061HVudGVyMg\u003d\u003d"}}`,
			`{"metadata":{"annotati\u006fns":{"a":"REDACTED"}},"data":{"p":"REDACTED"}}`,
		},
		"no strings": {
			secret, `{"metadata":{"annotations":{"a":{"b":"hunter2"},"c":["hunter2"],"d":null,"e":7}},"data":{}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","c":"REDACTED","d":null,"e":"REDACTED"}},"data":{}}`,
		},
		"no base64": {
			secret, `{"metadata":{"annotations":{"a":"hunter2!"}},"data":{"p":"hunter2!"}}`,
			`{"metadata":{"annotations":{"a":"REDACTED"}},"data":{"p":"REDACTED"}}`,
		},
		"odd values": {
			secret, `{"metadata":{"annotations":{"a":"hunter2","b":"7"}},"data":{"p":["hunter2"],"q":7,"r":null}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","b":"7"}},"data":{"p":"REDACTED","q":"REDACTED","r":"REDACTED"}}`,
		},
		"by path too": {
			Shape{Secret: true, Redact: []string{`metadata.annotations["a"]`}},
			`{"metadata":{"annotations":{"a":"hunter2","b":"of hunter2","c":"d"}},"data":{}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","b":"REDACTED","c":"d"}},"data":{}}`,
		},
		"dropped": {
			Shape{Secret: true, Drop: []string{`metadata.annotations["a"]`}},
			`{"metadata":{"annotations":{"a":"hunter2","b":"hunter2"}},"data":{"p":"aHVudGVyMg=="}}`,
			`{"metadata":{"annotations":{"b":"REDACTED"}},"data":{"p":"REDACTED"}}`,
		},
		"all dropped": {
			Shape{Secret: true, Drop: []string{`metadata.annotations`}},
			`{"metadata":{"annotations":{"a":"hunter2"},"b":1},"data":{"p":"aHVudGVyMg=="}}`,
			`{"metadata":{"b":1},"data":{"p":"REDACTED"}}`,
		},
		"all redacted": {
			Shape{Secret: true, Redact: []string{`metadata.annotations`}}, `{"metadata":{"annotations":{"a":"x"}}}`,
			`{"metadata":{"annotations":{"a":"REDACTED"}}}`,
		},
		"other kinds": {
			redact,
			`{"metadata":{"annotations":{"a":"hunter2","b":"c","n":"X"}},"data":{"password":"hunter2"},` +
				`"spec":{"env":[{"name":"X","value":"s3cret"}]}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","b":"c","n":"X"}},"data":{"password":"REDACTED"},` +
				`"spec":{"env":"REDACTED"}}`,
		},
		"elements": {
			redact, `{"metadata":{"annotations":{"a":"is s3cret","b":"c"}},"spec":{"env":[{"name":"X","value":"s3cret"}]}}`,
			`{"metadata":{"annotations":{"a":"REDACTED","b":"c"}},"spec":{"env":"REDACTED"}}`,
		},
		"no redaction": {
			Shape{Drop: []string{"x"}},
			`{"metadata":{"annotations":{"a":"hunter2","kapp.k14s.io/original":"x"}},"data":{"p":"aHVudGVyMg=="}}`,
			`{"metadata":{"annotations":{"a":"hunter2","kapp.k14s.io/original":"x"}},"data":{"p":"aHVudGVyMg=="}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := objectOf(t, lineOf(t, mustRenderer(t, podSource, c.shape), line.Added, c.in)); got != c.want {
				t.Errorf("\ngot  %s\nwant %s", got, c.want)
			}
		})
	}
}

// What would take too long to compare is redacted.
func TestAnnotationsThatMayCopyWithoutEnd(t *testing.T) {
	values := map[string]string{}
	for i := range 40_000 {
		values[fmt.Sprint(i)] = fmt.Sprintf("value-%d", i)
	}
	r := mustRenderer(t, podSource, Shape{Secret: true})
	for name, v := range map[string]string{
		"text": strings.Repeat("a b ", 50_000), "base64": strings.Repeat("QUJD", 50_000),
	} {
		l := lineOf(t, r, line.Added, secretObject(t, map[string]string{"a": v}, values))
		if got := annotationsOf(t, l)["a"]; got != "REDACTED" {
			t.Errorf("%s is %.20q", name, got)
		}
	}
}

// What was once found to have no copy says nothing of an object with another value, another annotation or another name.
func TestCopiesAreLookedForAgain(t *testing.T) {
	r := mustRenderer(t, Source{Stream: "secrets", Version: "v1", Resource: "secrets", Kind: "Secret"}, Shape{Secret: true})
	var o Object
	scan := func(name, value, annotation string) bool {
		t.Helper()
		raw := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","uid":"u","resourceVersion":"1",`+
			`"annotations":{"a":%q}},"data":{"password":%q}}`,
			name, annotation, base64.StdEncoding.EncodeToString([]byte(value)))
		if err := r.Scan([]byte(raw), &o); err != nil {
			t.Fatal(err)
		}
		line, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Modified, Origin: line.FromWatch, Received: time.Now()}, &o)
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(line), annotation)
	}
	for n, c := range []struct {
		name, value, annotation string
		redacted                bool
	}{
		{"db", "first-value", "no copy", false}, {"db", "first-value", "no copy", false},
		{"db", "first-value", "has first-value", true}, {"db", "no copy of this", "no copy of this", true},
		{"first-value", "first-value", "has first-value", false}, {"db", "first-value", "has first-value", true},
	} {
		if got := scan(c.name, c.value, c.annotation); got != c.redacted {
			t.Errorf("%d: redacted is %v, want %v", n, got, c.redacted)
		}
	}
}
