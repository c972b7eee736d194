package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	pages "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// writeReport writes a page of a journal, in doubt or not, and returns its address.
func writeReport(t *testing.T, journal string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "incident.html")
	cmd := command(t, append([]string{"report", "--journal", journal, "-o", path}, args...)...)
	out, err := cmd.CombinedOutput()
	if ended, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || ended.ExitCode() != 3) {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// openReport opens a page from the disk, in a browser without a network, and waits until it can be used.
func openReport(t *testing.T, path string) *browser {
	t.Helper()
	b := openBrowser(t)
	b.offline()
	b.look(desktop)
	b.do(chromedp.Navigate("file://" + path))
	b.until(`!!document.documentElement.dataset.ready`)
	return b
}

// offline turns the network off.
func (b *browser) offline() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(b.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: true})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails where a page has asked for anything but itself, or the browser complains.
func (b *browser) quiet(path string) {
	b.t.Helper()
	asked, troubles := b.heardOf()
	for _, url := range asked {
		if !strings.HasPrefix(url, "file://"+path) && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page asks for %s", url)
		}
	}
	if len(troubles) > 0 {
		b.t.Errorf("the browser complains of %q", troubles)
	}
}

// The page of the sample's incident, in a browser without network: by keyboard alone, dark, on a phone, and printed.
func TestReportPage(t *testing.T) {
	path := writeReport(t, filepath.Join(root, "test", "sample", "journal.jsonl"), "-n", "shop", "--title", "Shop: bad image",
		"--since", "2026-11-23T10:21:59Z", "--until", "2026-11-23T10:22:40Z")
	info, err := os.Stat(path)
	if err != nil || info.Size() > 1<<20 {
		t.Errorf("%v, or the page has %d bytes", err, info.Size())
	}
	b := openReport(t, path)
	if *screenshots > 0 {
		b.run(`document.querySelector('[data-key=utc]').click()`)
		b.picture("report.png")
	}
	if got := value[string](b, `document.querySelector(".ranked li").textContent`); !strings.Contains(got, "deployments shop/web") || !strings.Contains(got, "1.5.0-bad") {
		t.Errorf("what changed just before begins with %q", got)
	}
	for _, part := range []string{"Not covered", "GAP Expired", "kubejournal history", "kubejournal coverage"} {
		if !value[bool](b, fmt.Sprintf("document.body.innerText.includes(%q)", part)) {
			t.Errorf("the page does not say %q", part)
		}
	}
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			b.do(chromedp.KeyEvent(key))
		}
	}
	// The keyboard alone: an object, a version, the one after it, and back.
	b.run(`document.getElementById("lanes").focus()`)
	press(kb.ArrowDown, kb.ArrowRight, kb.Enter)
	b.until(`!document.getElementById("drawer").hidden && document.querySelectorAll(".yaml > div").length > 5 && document.querySelectorAll("#rows tr.lit, #rows tr.open").length >= 1 && document.querySelectorAll(".ring").length === 1`)
	first := value[string](b, `location.hash`)
	press(kb.ArrowRight)
	b.until(`location.hash !== ` + fmt.Sprintf("%q", first))
	link := value[string](b, `location.hash`)
	title := value[string](b, `document.getElementById("drawertitle").textContent`)
	press(kb.Escape)
	b.until(`document.getElementById("drawer").hidden && document.activeElement.id === "lanes"`)
	all := value[int](b, `document.querySelectorAll(".lane").length`)
	press("x")
	b.until(fmt.Sprintf(`document.querySelectorAll(".lane").length < %d && document.querySelectorAll(".lane.problem").length > 0`, all))
	press("x", "+")
	b.until(`location.hash.includes("from=") && document.getElementById("windows").textContent.includes("shown: ")`)
	press("0", "/")
	press("w", "e", "b", "-", "b", "a", "n", "n", "e", "r")
	b.until(`[...document.querySelectorAll("#rows tr")].every((r) => r.textContent.includes("web-banner")) && document.querySelectorAll("#rows tr").length > 0`)
	press(kb.Escape, "?")
	b.until(`!document.getElementById("help").hidden`)
	press(kb.Escape)
	b.until(`document.getElementById("help").hidden`)
	// A link leads to the same version.
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate("file://"+path+link))
	b.until(`!!document.documentElement.dataset.ready && !document.getElementById("drawer").hidden`)
	if got := value[string](b, `document.getElementById("drawertitle").textContent`); got != title {
		t.Errorf("the link leads to %q, not %q", got, title)
	}
	press("p")
	// Dragging over the ruler zooms.
	b.run(`{ const r = document.querySelector("#ruler svg"), at = (type, x) => r.dispatchEvent(new PointerEvent(type, { clientX: r.getBoundingClientRect().x + x, clientY: r.getBoundingClientRect().y + 9, bubbles: true, pointerId: 1 }));
		r.setPointerCapture = () => {}; at("pointerdown", 100); at("pointermove", 200); at("pointerup", 200); }`)
	b.until(`document.getElementById("windows").textContent.includes("shown: ")`)
	press("0")
	grounds := map[string]string{}
	for _, v := range []view{desktop, night, phone, {"dark", 360, 780, 2}} {
		b.look(v)
		b.until(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, v.width))
		grounds[v.scheme] = value[string](b, `getComputedStyle(document.body).backgroundColor`)
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("light and dark are both %s", grounds["light"])
	}
	b.look(desktop)
	background := true
	printed, err := chromedp.Call(b.ctx, pages.PrintToPDF, pages.PrintToPDFParams{PrintBackground: &background})
	if err != nil || !bytes.HasPrefix(printed.Data, []byte("%PDF")) || len(printed.Data) < 20<<10 {
		t.Errorf("printed: %v, %d bytes", err, len(printed.Data))
	}
	b.quiet(path)
}

// versions is a journal of so many versions of Deployments, with what somebody may write into names and values.
func versions(t *testing.T, n int) string {
	t.Helper()
	const evil = `</script><script>window.evil=1</script><img src=x onerror="window.evil=1">`
	name, _ := json.Marshal(evil)
	var journal bytes.Buffer
	for i := range n {
		typ, id := "MODIFIED", i%100
		if i < 100 {
			typ = "ADDED"
		}
		object := fmt.Sprintf(`"web-%d"`, id)
		if id == 0 {
			object = string(name)
		}
		fmt.Fprintf(&journal, `{"seq":%d,"time":"2026-11-20T14:%02d:%02d.%03dZ","type":"%s","origin":"watch","id":"%d","stream":"deployments.apps","group":"apps","version":"v1","resource":"deployments","kind":"Deployment",`+
			`"namespace":"shop","name":%s,"uid":"u%d","resourceVersion":"%d","manager":%s,"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%s,"namespace":"shop","uid":"u%d","resourceVersion":"%d","labels":{"app":%s}},`+
			`"spec":{"replicas":%d,"paused":%v},"status":{"readyReplicas":%d,"conditions":[{"type":"Available","status":"%s","reason":%s}]}}}`+"\n",
			i+1, i/1000%60, i/17%60, i%1000, typ, i, object, id, 10+i, name, object, id, 10+i, name, i/100, i%200 < 100, i/100, []string{"True", "False"}[i/500%2], name)
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, journal.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A page of 10,000 versions takes less than a second of a processor until it can be used, and names and values in it are
// text.
func TestReportPageLarge(t *testing.T) {
	path := writeReport(t, versions(t, 10_000))
	b := openBrowser(t)
	b.offline()
	if _, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		t.Fatal(err)
	}
	b.look(desktop)
	b.do(chromedp.Navigate("file://" + path))
	b.until(`!!document.documentElement.dataset.ready`)
	spent := 0.0
	metrics, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metrics.Metrics {
		if m.Name == "TaskDuration" {
			spent = m.Value
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("10,000 versions: %.2f s of a processor, usable %s ms after it was opened, %d KiB", spent, value[string](b, `document.documentElement.dataset.ready`), info.Size()>>10)
	if spent > 1 {
		t.Errorf("it takes %.2f s of a processor", spent)
	}
	b.run(`document.querySelector("#rows button").click()`)
	b.until(`!document.getElementById("drawer").hidden && document.getElementById("drawer").textContent.includes("<img src=x")`)
	if value[bool](b, `"evil" in window || document.querySelectorAll("main img, main script, #app script").length > 0`) {
		t.Error("a name has become a part of the page")
	}
	b.quiet(path)
}
