package watcher_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// keepSecret writes a Secret with these values.
func (w *harness) keepSecret(name, password, user string) {
	w.t.Helper()
	object := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"data":     map[string]any{"password": password, "user": user},
	}
	write := w.srv.Update
	if _, err := w.srv.Get(secrets, "default", name); err != nil {
		write = w.srv.Create
	}
	_, err := write(secrets, object)
	must(w.t, err)
}

// rotated are the paths below data that a line lists as replaced.
func rotated(t *testing.T, l invariant.Line) (paths []string) {
	t.Helper()
	var list []struct{ Op, Path, Old, Value string }
	if err := json.Unmarshal(l.Raw("changes"), &list); err != nil {
		t.Fatalf("%s: %v: %s", l.Where, err, l.Raw("changes"))
	}
	for _, c := range list {
		if !strings.HasPrefix(c.Path, "/data/") {
			continue
		}
		if c.Op != "replace" || c.Old != "REDACTED" || c.Value != "REDACTED" {
			t.Errorf("%s: %+v", l.Where, c)
		}
		paths = append(paths, c.Path)
	}
	return paths
}

// digestsOf are what the checkpoint holds of the redacted values of a Secret: see changes.Store for its format.
func (w *harness) digestsOf(name string) []byte {
	w.t.Helper()
	value, ok, err := w.life.gate.store.Kept(nil, "secrets", []byte("default"), []byte(name))
	must(w.t, err)
	if !ok || value[0]&8 == 0 || value[0]&1 != 0 {
		w.t.Fatalf("%s: no digests in %x", name, value)
	}
	size, n := binary.Uvarint(value[1:])
	return value[1+n:][:size]
}

// A Secret whose values change says which, in lines of watches and lists, after commits, restarts and a kill. What has
// changed while no daemon ran cannot be known. No digest gets out of the checkpoint.
func TestRotatedSecrets(t *testing.T) {
	bubble(t, fake.Options{}, demanding("secrets", func(e *config.Resource) { e.Changes = true }), func(w *harness) {
		var digests [][]byte
		n := 0
		wants := func(line string, paths ...string) {
			t.Helper()
			w.settled()
			n = w.tell(n, line)
			if got := rotated(t, w.lines()[n-1]); !slices.Equal(got, paths) {
				t.Errorf("%s: listed are %v, want %v", line, got, paths)
			}
			digests = append(digests, w.digestsOf("s"))
		}
		again := func(end func()) {
			w.settled()
			end()
			w.start()
			w.settled()
		}
		w.keepSecret("s", "marker-1", "marker-u")
		w.keepSecret("quiet", "marker-1", "marker-u")
		w.start()
		w.settled()
		n = w.tell(n, "ADDED snapshot quiet", "ADDED snapshot s", "SYNCED +2 ~0 -0 =0")
		w.keepSecret("s", "marker-2", "marker-u")
		wants("MODIFIED watch s", "/data/password")
		again(w.stop)
		w.keepSecret("s", "marker-3", "marker-u")
		wants("MODIFIED watch s", "/data/password")

		w.keepSecret("s", "marker-4", "marker-u")
		w.pass(50 * time.Millisecond) // written, not committed
		w.kill()
		n = w.tell(n, "MODIFIED watch s")
		w.start()
		w.settled()
		w.keepSecret("s", "marker-4", "marker-v")
		wants("MODIFIED watch s", "/data/user")

		again(func() { w.stop(); w.keepSecret("s", "marker-5", "marker-v") })
		wants("MODIFIED watch s")
		w.keepSecret("s", "marker-6", "marker-w")
		wants("MODIFIED watch s", "/data/password", "/data/user")

		again(func() { w.stop(); w.keepSecret("s", "marker-7", "marker-w"); w.srv.DropHistory() })
		lines := w.lines()[n:]
		n = w.tell(n, "GAP Expired", "MODIFIED relist s", "SYNCED +0 ~1 -0 =1")
		if got := rotated(t, lines[1]); len(got) > 0 {
			t.Errorf("of what nobody can know: %v", got)
		}
		w.keepSecret("s", "marker-8", "marker-w")
		wants("MODIFIED watch s", "/data/password")
		w.keepSecret("quiet", "marker-1", "marker-x")
		wants("MODIFIED watch quiet", "/data/user")

		digests = append(digests, w.digestsOf("quiet"))
		w.stop()
		_, err := w.srv.Delete(secrets, "default", "quiet")
		must(t, err)
		w.srv.DropHistory()
		w.start()
		w.settled()
		gone := w.lines()[n+1]
		digests = append(digests, w.digestsOf("s"))
		w.tell(n, "GAP Expired", "DELETED relist quiet", "SYNCED +0 ~0 -1 =1")
		if got := string(gone.Object); !strings.Contains(got, `"data":{"password":"REDACTED","user":"REDACTED"}`) {
			t.Errorf("the last known object is %s", got)
		}
		must(t, invariant.Changes(w.lines()))
		w.stop()

		journal, err := os.ReadFile(w.journal())
		must(t, err)
		checkpoint, err := os.ReadFile(w.db())
		must(t, err)
		told := slices.Concat(journal, []byte(w.log.String()))
		if bytes.Contains(told, []byte("marker-")) || bytes.Contains(checkpoint, []byte("marker-")) {
			t.Error("a value got out")
		}
		if !bytes.Contains(checkpoint, digests[len(digests)-1][:16]) {
			t.Error("the search finds nothing")
		}
		for _, d := range digests {
			for from := range len(d) - 7 {
				part := d[from : from+8]
				for _, form := range []string{string(part), hex.EncodeToString(part), base64.StdEncoding.EncodeToString(part)[:10]} {
					if bytes.Contains(told, []byte(form)) {
						t.Fatalf("a digest got out: %q", form)
					}
				}
			}
		}
	})
}

// What other tools leave of a Secret's values in its annotations gets out no more than the values: in snapshot, watch
// and list, in changes and deletions, with and without the object, and after a kill.
func TestCopiesOfSecrets(t *testing.T) {
	for name, demands := range map[string]func(*config.Resource){
		"object":   func(e *config.Resource) {},
		"changes":  func(e *config.Resource) { e.Changes = true },
		"metadata": func(e *config.Resource) { e.Payload = "metadata"; e.Changes = true },
		"ignored":  func(e *config.Resource) { e.IgnoreFields = []string{`metadata.annotations["note"]`}; e.Changes = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, demanding("secrets", demands), func(w *harness) {
				keep := func(name, password, original string) {
					t.Helper()
					value := base64.StdEncoding.EncodeToString([]byte(password))
					object := map[string]any{
						"metadata": map[string]any{"name": name, "namespace": "default", "annotations": map[string]any{
							"kapp.k14s.io/original": `{"data":{"p":"` + base64.StdEncoding.EncodeToString([]byte(original)) + `"}}`,
							"mine":                  "stays", "note": "it is " + password, "encoded": value,
							"openshift.io/token-secret.value": original,
						}},
						"data": map[string]any{"p": value},
					}
					write := w.srv.Update
					if _, err := w.srv.Get(secrets, "default", name); err != nil {
						write = w.srv.Create
					}
					_, err := write(secrets, object)
					must(t, err)
				}
				gone := func(name string) {
					t.Helper()
					_, err := w.srv.Delete(secrets, "default", name)
					must(t, err)
				}
				for _, name := range []string{"s", "seen", "unseen"} {
					keep(name, "marker-1-"+name, "marker-0-"+name)
				}
				w.start()
				w.settled()
				keep("s", "marker-2", "marker-1")
				keep("new", "marker-3", "marker-3")
				gone("seen")
				w.settled()
				w.stop()
				keep("s", "marker-4", "marker-2")
				gone("unseen")
				w.srv.DropHistory()
				w.start()
				w.settled()
				keep("s", "marker-5", "marker-2")
				w.pass(50 * time.Millisecond) // written, not committed
				w.kill()
				w.start()
				w.settled()
				keep("s", "marker-6", "marker-5")
				w.settled()
				w.tell(0, "ADDED snapshot s", "ADDED snapshot seen", "ADDED snapshot unseen", "SYNCED +3 ~0 -0 =0",
					"MODIFIED watch s", "ADDED watch new", "DELETED watch seen",
					"GAP Expired", "MODIFIED relist s", "DELETED relist unseen", "SYNCED +0 ~1 -1 =1", "MODIFIED watch s", "MODIFIED watch s")
				lines := w.lines()
				w.stop()
				files, err := os.ReadDir(w.dir)
				must(t, err)
				told := []byte(w.log.String())
				for _, f := range files {
					content, err := os.ReadFile(filepath.Join(w.dir, f.Name()))
					must(t, err)
					told = append(told, content...)
				}
				for _, form := range []string{"marker-", base64.StdEncoding.EncodeToString([]byte("marker-"))[:9]} {
					if bytes.Contains(told, []byte(form)) {
						t.Errorf("a value got out, as %s", form)
					}
				}
				for _, l := range lines {
					if l.Name != "" && !strings.Contains(string(l.Object), `"mine":"stays"`) && l.FinalStateKnown == nil {
						t.Errorf("%s: %s", l.Where, l.Object)
					}
				}
			})
		})
	}
}
