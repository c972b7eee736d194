package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var screenshots = flag.Duration("screenshots", 0, "write docs/images/status-*.png, once there has been so much churn (10m fills the charts)")

const pageNamespace = "page"

// browser is a Chromium with one tab, and what it has asked for and complained of.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	asked    []string // guarded by mu
	troubles []string // guarded by mu
}

// openBrowser starts a Chromium of nobody's profile that ends with the test.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: the status page is looked at with Chromium; install Debian's package chromium", err)
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir())}
	for _, name := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	b := &browser{t: t}
	tab, closeTab := chromedp.NewContext(allocator, chromedp.WithListener(b.heard))
	t.Cleanup(closeTab)
	b.ctx = tab
	b.do() // the browser lives as long as the context of the first call
	return b
}

func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.troubles = append(b.troubles, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		b.troubles = append(b.troubles, fmt.Sprint(e.Type, e.Args))
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, fmt.Sprintf("%+v", e.ExceptionDetails))
	}
}

// heardOf is what the tab has asked for and complained of until now.
func (b *browser) heardOf() (asked, troubles []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked), slices.Clone(b.troubles)
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// value is what an expression comes to in the page.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// run runs statements in the page.
func (b *browser) run(statements string) {
	b.t.Helper()
	value[bool](b, "{"+statements+"} true")
}

// until waits until an expression is true in the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	eventually(b.t, expression, func() error {
		if !value[bool](b, expression) {
			return errors.New(value[string](b, "document.body.innerText"))
		}
		return nil
	})
}

// shown is until for what the page will show as soon as it asks: it need not wait for its time.
func (b *browser) shown(expression string) {
	b.t.Helper()
	b.run(`document.dispatchEvent(new Event("visibilitychange"))`)
	b.until(expression)
}

// view is how somebody looks at the page.
type view struct {
	scheme        string
	width, height int64
	scale         float64
}

var (
	desktop = view{"light", 1280, 1010, 1}
	night   = view{"dark", 1280, 1010, 1}
	phone   = view{"light", 360, 780, 2}
)

func (b *browser) look(v view) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(v.width, v.height, chromedp.EmulateScale(v.scale)))
}

// picture writes what is to be seen now.
func (b *browser) picture(name string) {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	// Once more, as small as it gets.
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, img); err != nil {
		b.t.Fatal(err)
	}
	if small.Len() < len(shot) {
		shot = small.Bytes()
	}
	path := filepath.Join(root, "docs", "images", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, shot, 0o644)); err != nil { //nolint:gosec // documents
		b.t.Fatal(err)
	}
}

// crd is a custom resource that the server is to have.
func crd(plural, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// stream is what /streams says of a stream.
func (p *process) stream(name string) (s struct {
	State, LastGap string
}, err error) {
	body, err := p.get("/streams")
	if err != nil {
		return s, err
	}
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		return s, err
	}
	for _, raw := range all {
		var named struct{ Stream string }
		if err := json.Unmarshal(raw, &named); err != nil {
			return s, err
		}
		if named.Stream == name {
			err := json.Unmarshal(raw, &s)
			return s, err
		}
	}
	return s, fmt.Errorf("no stream %s in %s", name, body)
}

func (p *process) await(name, state string) {
	p.t.Helper()
	eventually(p.t, name+" is "+state, func() error {
		s, err := p.stream(name)
		if err == nil && s.State != state {
			err = errors.New(s.State)
		}
		return err
	})
}

// churn writes objects until the test ends, in waves, so that a chart has a shape.
func churn(t *testing.T, s *server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		writers.Wait()
	})
	core := s.client.CoreV1()
	write := func(pause time.Duration, object func(n int) error) {
		writers.Go(func() {
			began, tick := time.Now(), time.NewTicker(pause)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				// Less and more, over some two minutes.
				if wave := 0.5 + 0.5*math.Sin(time.Since(began).Seconds()/18+pause.Seconds()); float64(n%10)/10 > wave {
					continue
				}
				if err := object(n); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	write(50*time.Millisecond, func(n int) error {
		_, err := core.ConfigMaps(pageNamespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}, Data: map[string]string{"n": fmt.Sprint(n)},
		}, metav1.CreateOptions{})
		return err
	})
	write(170*time.Millisecond, func(n int) error {
		_, err := core.Events(pageNamespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}, Type: "Normal", Reason: "Pulled", FirstTimestamp: metav1.Now(),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pageNamespace, Name: "web-1"},
		}, metav1.CreateOptions{})
		return err
	})
	write(1100*time.Millisecond, func(n int) error {
		_, err := core.Secrets(pageNamespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}}, metav1.CreateOptions{})
		return err
	})
}

// The status page of a live daemon, in a browser: it fits, it follows what happens, it asks nobody else, and it says when
// it is old.
func TestStatusPage(t *testing.T) {
	s := theServer(t)
	s.apply(t, false, parse(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+pageNamespace+"}}"))...)
	gadgets := crd("gadgets", "Gadget")
	s.apply(t, false, gadgets)
	t.Cleanup(func() { s.remove(t, manifests{gadgets}) })

	dir := t.TempDir()
	config := filepath.Join(dir, "kubejournal.yaml")
	text := `cluster: prod-eu1
resources:
  - {resource: configmaps, namespaces: [page]}
  - {resource: events, namespaces: [page]}
  - {resource: secrets, namespaces: [page], labelSelector: "tier!=test"}
  - deployments.apps
  - pods
  - gadgets.example.com
  - widgets.example.com
`
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	run := func(listen string) *process {
		cmd := command(t, "run", "--kubeconfig", s.Kubeconfig(), "--config", "kubejournal.yaml", "--output", "journal.jsonl",
			"--checkpoint", "kubejournal.db", "--listen", listen)
		cmd.Dir = dir
		return start(t, cmd)
	}
	p := run("127.0.0.1:0")
	// The history of a resource ends with its definition: what comes later begins with a gap.
	p.await("gadgets.example.com", "Watching")
	s.remove(t, manifests{gadgets})
	p.await("gadgets.example.com", "Pending")
	s.apply(t, false, gadgets)
	p.await("gadgets.example.com", "Watching")
	if stream, err := p.stream("gadgets.example.com"); err != nil || stream.LastGap == "" {
		t.Fatalf("no gap: %+v %v", stream, err)
	}

	b := openBrowser(t)
	address := p.address()
	b.look(desktop)
	b.do(chromedp.Navigate("http://" + address + "/"))
	if got, want := value[string](b, `document.getElementById("headline").textContent`), "1 of 7 streams does not watch yet"; got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
	// What was touched by the one who looks is left alone.
	b.run(`
		window.opened = true;
		document.querySelector("#help").open = true;
		document.querySelector("summary").focus({preventScroll: true});
		window.position = document.querySelector("[data-label=Position]").firstChild;
		getSelection().setBaseAndExtent(document.querySelector("#headline").firstChild, 2, document.querySelector("#headline").firstChild, 6);
		scrollTo(0, 40);`)
	before := value[string](b, `document.getElementById("seq").textContent`)
	churn(t, s)
	b.until(`Number(document.getElementById("seq").textContent) > ` + before + `+20`)
	b.until(`Number(document.getElementById("rate").textContent) > 1`)
	b.until(`[...document.querySelectorAll("tbody tr")].some(r => r.textContent.includes("configmaps") && r.querySelector("path[d^=M]:not(.mark path)"))`)
	if !value[bool](b, `opened && document.querySelector("#help").open && document.activeElement === document.querySelector("summary") &&
		position.isConnected && String(getSelection()) === "of 7" && scrollY === 40`) {
		t.Error("the page does not keep what was opened, focused, selected and scrolled to")
	}
	if got := value[[]string](b, `[...document.querySelectorAll("tbody tr")].map(r => r.className + " " + r.dataset.key)`); len(got) != 7 ||
		got[0] != "busy widgets.example.com" || !strings.HasPrefix(got[1], "fine ") || !slices.Contains(got, "fine gadgets.example.com") { // nothing had changed after its gap
		t.Errorf("rows %q: what needs attention is to come first", got)
	}
	b.run(`document.querySelector("#help").open = false; getSelection().removeAllRanges(); document.activeElement.blur(); scrollTo(0, 0)`)

	if *screenshots > 0 {
		select {
		case <-time.After(*screenshots):
		case <-t.Context().Done():
		}
	}
	grounds := map[string]string{}
	for name, v := range map[string]view{"status-light.png": desktop, "status-dark.png": night, "status-phone.png": phone, "": {"dark", 360, 780, 2}} {
		b.look(v)
		if wide := value[int64](b, `document.documentElement.scrollWidth`); wide > v.width {
			t.Errorf("%s: the page is %d wide and the screen %d", name, wide, v.width)
		}
		grounds[v.scheme] = value[string](b, `getComputedStyle(document.body).backgroundColor`)
		if *screenshots > 0 && name != "" {
			b.picture(name)
		}
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("light and dark are both %s", grounds["light"])
	}
	b.look(desktop)

	said := func(text string) {
		t.Helper()
		eventually(t, text, func() error {
			body, err := p.get("/readyz?verbose")
			if err == nil && !strings.Contains(body, text) {
				err = errors.New(body)
			}
			return err
		})
	}
	write(text + "resorces: []\n")
	said("failed, the config from before runs")
	b.shown(`document.getElementById("reload").textContent.startsWith("refused") && document.querySelector(".alerts").textContent.includes("resorces")`)
	write(text + "  - services\n")
	said("reloaded at")
	b.shown(`document.getElementById("reload").textContent.startsWith("in effect") && !document.querySelector(".alerts")`)
	// Who looks for one stream continues seeing that one.
	b.until(`document.querySelectorAll("tbody tr").length === 8 && document.querySelector("#filter").offsetWidth > 0`)
	b.run(`
		document.querySelector("#filter").value = "PENDING";
		document.querySelector("#filter").dispatchEvent(new Event("input"));
		window.seen = document.querySelector("#asof").textContent;`)
	b.until(`document.querySelector("#asof").textContent !== seen`)
	if got := value[[]string](b, `[...document.querySelectorAll("tbody tr")].filter(r => r.offsetHeight > 0).map(r => r.dataset.key)`); !slices.Equal(got, []string{"widgets.example.com"}) {
		t.Errorf("the filter shows %q", got)
	}

	asked, troubles := b.heardOf()
	for _, url := range asked {
		if url != "http://"+address+"/" && !strings.HasPrefix(url, "data:") {
			t.Errorf("the page asks for %s", url)
		}
	}
	if len(asked) < 3 || len(troubles) > 0 {
		t.Errorf("the page asks %d times, and the browser complains of %q", len(asked), troubles)
	}

	const isOld = `!document.getElementById("stale").hidden && document.getElementById("stale").textContent.includes("does not answer") && document.title.startsWith("(old)")`
	p.stop()
	b.shown(isOld)
	p = run(address)
	p.await("configmaps?namespace=page", "Watching")
	b.shown(`document.getElementById("stale").hidden && !document.title.startsWith("(old)") && window.opened`)
}
