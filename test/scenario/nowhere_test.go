package scenario

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubejournal/internal/checkpoint"
	"kubejournal/test/invariant"
)

// hidden is values that must not get out, each in the forms in which it could: as it is, and in base64 at each of the
// three places of a group where it may begin.
type hidden struct {
	mu    sync.Mutex
	forms map[string]string // what it is, by form; guarded by mu
}

// value makes up a value that nothing else holds.
func (h *hidden) value(what string) string {
	v := rand.Text()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forms == nil {
		h.forms = make(map[string]string)
	}
	for _, form := range forms(v) {
		h.forms[form] = what
	}
	return v
}

func forms(value string) []string {
	all := []string{value}
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", before) + value))
		first := (before*8 + 5) / 6           // characters that depend on what stands before
		last := (before + len(value)) * 8 / 6 // and from here on on what stands after
		all = append(all, text[first:last])
	}
	return all
}

// search fails where a hidden value stands in what was written.
func (h *hidden) search(t *testing.T, where string, content []byte) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for form, what := range h.forms {
		if i := bytes.Index(content, []byte(form)); i >= 0 {
			t.Errorf("%s: holds %s: %.300q", where, what, content[max(0, i-200):])
		}
	}
}

func TestFormsOfHidden(t *testing.T) {
	t.Parallel()
	var h hidden
	v := h.value("it")
	for before := range 7 {
		for after := range 7 {
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + v + strings.Repeat("y", after)))
			found := false
			for form := range h.forms {
				found = found || strings.Contains(text, form) && form != v
			}
			if !found {
				t.Errorf("not found behind %d bytes and before %d: %s", before, after, text)
			}
		}
	}
}

// output runs the program to its end and returns all that it says. A command that follows is ended.
func (d *daemon) output(args ...string) []byte {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), kubejournal(d.t), args...)
	cmd.Dir, cmd.Env = d.dir, []string{"HOME=" + d.dir, "TMPDIR=" + d.dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Secrets come, change and go, are listed again after a lost history and read back after a crash, while the daemon says
// what changed and compares what it ignores. Nowhere is there a value of them. What a relist holds back in a file for some
// milliseconds is looked at in internal/watcher, which can hold that open.
func TestSecretsNowhere(t *testing.T) {
	s := own.get(t)
	ns := s.namespaces(t, 1)[0]
	ctx := t.Context()
	var h hidden
	d := newDaemon(t, s.Kubeconfig(), nil)
	config := d.content(s.Kubeconfig(), []any{
		object{"resource": "secrets", "namespaces": []string{ns}, "changes": true, "ignoreFields": []any{`metadata.annotations["counter"]`}},
		object{"resource": "configmaps", "namespaces": []string{ns}, "changes": true},
	}, object{
		"output": object{"maxSize": "16KiB", "maxFiles": 0},
		"redact": []any{object{"resource": "configmaps", "fields": []any{"data.password"}}},
		"log":    object{"level": "debug"},
	})
	d.rewrite(config)
	const applied = "kubectl.kubernetes.io/last-applied-configuration"
	// apply is kubectl apply of an object with new values.
	apply := func(k kind, name string) {
		t.Helper()
		password := h.value("the password of " + name)
		o := object{
			"apiVersion": "v1", "kind": k.Kind, "metadata": object{"name": name, "namespace": ns},
			"data": object{"password": password, "stays": "in sight"},
		}
		if k.Kind == "Secret" {
			o["data"] = object{"password": base64.StdEncoding.EncodeToString([]byte(password))}
			o["stringData"] = object{h.valueKey(): h.value("a string of " + name)}
			last, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			o["metadata"].(object)["annotations"] = object{applied: string(last), "counter": fmt.Sprint(time.Now().UnixNano())}
		}
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		force := true
		_, err = s.client.Resource(k.Resource).Namespace(ns).
			Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "kubectl", Force: &force})
		if err != nil {
			t.Fatal(err)
		}
	}
	drop := func(name string) {
		t.Helper()
		if err := s.client.Resource(secrets.Resource).Namespace(ns).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := func(n int, name string) {
		t.Helper()
		for i := range n {
			apply(secrets, fmt.Sprint(name, i))
			apply(configMaps, fmt.Sprint(name, i))
		}
	}
	// look asks for all that the daemon says of itself to who asks.
	look := func() {
		t.Helper()
		for _, path := range []string{"/streams", "/", "/metrics", "/readyz?verbose"} {
			_, body, err := d.get(path)
			if err != nil {
				t.Fatal(err)
			}
			h.search(t, path, []byte(body))
		}
	}
	told := func(name string) {
		t.Helper()
		eventually(t, soon, name+" is told", func() error {
			if !bytes.Contains(d.everything(), []byte(`"name":"`+name+`"`)) {
				return errors.New("it is not")
			}
			return nil
		})
	}

	all(4, "s")
	d.start()
	all(4, "s")
	drop("s3")
	apply(secrets, "w")
	told("w")
	look()
	d.kill()
	all(3, "s")
	d.start() // what a kill left is read back
	apply(secrets, "x")
	told("x")
	d.kill()
	all(3, "s")
	drop("s2")
	all(10, "r")
	if err := errors.Join(s.Compact(ctx), s.RestartAPIServer(ctx)); err != nil {
		t.Fatal(err)
	}
	d.start()
	told("r9")
	look()
	address, err := d.process.Address()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status", "--address", address}, {"status", "--address", address, "-o", "json"}} {
		h.search(t, strings.Join(args, " "), d.output(args...))
	}
	d.stop()

	journal := d.everything()
	for _, want := range []string{`"REDACTED"`, `"reason":"Expired"`, `"type":"DELETED"`, `"origin":"relist"`, `"changes":[`, `"in sight"`} {
		if !bytes.Contains(journal, []byte(want)) {
			t.Errorf("what was searched has no %s", want)
		}
	}
	for name, content := range d.files() {
		h.search(t, name, content)
		if unpacked, err := invariant.ReadFile(name); err != nil {
			t.Error(err)
		} else {
			h.search(t, name+", unpacked", unpacked)
		}
	}
	out := d.output("tail", "--no-follow", "--lines=all", d.journal())
	if !bytes.Contains(out, []byte("secrets")) {
		t.Errorf("tail shows nothing: %s", out)
	}
	h.search(t, "tail", out)
	d.searchDigests("secrets?namespace="+ns, ns, []string{"s0", "s1", "w", "x", "r0", "r9"}, out)
	h.search(t, "checkpoint show", d.output("checkpoint", "show", "--checkpoint", d.checkpoint()))
}

// searchDigests fails where a digest that the checkpoint holds of redacted values, or of an object with such values, is in
// the journal, in the log or in what a command has shown. The format is that of changes.Store.
func (d *daemon) searchDigests(stream, ns string, names []string, shown []byte) {
	d.t.Helper()
	store, err := checkpoint.OpenReadOnly(d.checkpoint())
	if err != nil {
		d.t.Fatal(err)
	}
	defer store.Close()
	searched := map[string][]byte{"tail": shown, "journal": d.everything()}
	for name, content := range d.files() {
		if name != d.checkpoint() {
			searched[name] = content
		}
	}
	for _, name := range names {
		value, ok, err := store.Kept(nil, stream, []byte(ns), []byte(name))
		if err != nil || !ok || value[0]&9 != 9 {
			d.t.Fatalf("%s: no digests in %x, %t, %v", name, value, ok, err)
		}
		value = value[9 : 18+value[17]] // behind the seal's number; of a few values the length is one byte
		for from := range len(value) - 7 {
			part := value[from : from+8]
			for _, form := range []string{string(part), hex.EncodeToString(part), base64.StdEncoding.EncodeToString(part)[:10]} {
				for where, content := range searched {
					if bytes.Contains(content, []byte(form)) {
						d.t.Fatalf("%s holds a digest of %s: %q", where, name, form)
					}
				}
			}
		}
	}
}

// everything is what stands in the journal's files, in order, as far as it can be read while they are rotated.
func (d *daemon) everything() (all []byte) {
	d.t.Helper()
	names, err := invariant.JournalFiles(d.journal())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range names {
		content, err := invariant.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // compressed meanwhile
		}
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, content...)
	}
	return all
}

// valueKey is a key of a Secret, which may be seen.
func (h *hidden) valueKey() string { return "key-" + strings.ToLower(rand.Text()[:6]) }
