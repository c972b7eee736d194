package deploy

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	picture    = flag.String("picture", "", "have TestPrometheus draw the dashboard to this file, after some time of churn")
	pictureFor = flag.Duration("picture.for", 6*time.Minute, "how long the picture's churn goes on")
)

const (
	pictureWidth = 1200 // pixels
	rowHeight    = 38   // of the dashboard's grid, with the gap
	resolution   = 2 * time.Second
)

// shown is a panel with what Prometheus answered.
type shown struct {
	panel

	Stat   string
	Chart  template.HTML
	Legend []entry
	Table  []string
}

type entry struct {
	Color, Name string
}

var page = template.Must(template.New("").Parse(`<!doctype html><meta charset="utf-8"><style>
body { margin: 8px; background: #f4f5f5; font: 12px "DejaVu Sans", sans-serif; color: #24292e }
main { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: {{.RowHeight}}px }
section { margin: 4px; padding: 6px 8px; background: #fff; border: 1px solid #e1e3e6; border-radius: 2px; overflow: hidden; display: flex; flex-direction: column; min-width: 0 }
h2 { font-size: 12px; margin: 0 0 4px; font-weight: 600; white-space: nowrap } h1 { font-size: 13px; margin: auto 8px 4px }
.stat { font-size: 34px; margin: auto; color: #299c46 }
p { margin: 0; max-height: 30px; overflow: hidden; font-size: 11px } p span { margin-right: 10px; white-space: nowrap } b { display: inline-block; width: 12px; height: 3px; margin: 0 4px 3px 0 }
li { list-style: none; padding: 3px 0; border-bottom: 1px solid #eee; font-size: 11px } ul { margin: 0; padding: 0 }
svg { flex: 1; min-height: 0 } text { font-size: 10px; fill: #6e7780 }
</style><main>{{range .Panels}}
{{if eq .Type "row"}}<h1 style="grid-area: {{.Row}} / {{.Column}} / span {{.GridPos.H}} / span {{.GridPos.W}}">{{.Title}}</h1>
{{else}}<section style="grid-area: {{.Row}} / {{.Column}} / span {{.GridPos.H}} / span {{.GridPos.W}}"><h2>{{.Title}}</h2>
{{if eq .Type "stat"}}<div class="stat">{{.Stat}}</div>
{{else if eq .Type "table"}}<ul>{{range .Table}}<li>{{.}}</li>{{else}}<li>No data</li>{{end}}</ul>
{{else}}{{.Chart}}<p>{{range .Legend}}<span><b style="background: {{.Color}}"></b>{{.Name}}</span>{{end}}</p>{{end}}</section>{{end}}
{{end}}</main>`))

// Row and Column are where a panel stands, as CSS counts.
func (s shown) Row() int    { return s.GridPos.Y + 1 }
func (s shown) Column() int { return s.GridPos.X + 1 }

// draw has things happen for some minutes and makes a picture of the dashboard's panels with what Prometheus answers to
// their queries. Grafana cannot be had here: the place, title, unit and query of each panel are the dashboard's, the looks
// are ours.
func (s *scraper) draw(d *monitored) {
	t := s.t
	t.Helper()
	began := time.Now()
	d.live(*pictureFor)
	end := time.Now()
	variables := grafana("20s", "10m")
	var content struct {
		RowHeight int
		Panels    []shown
	}
	content.RowHeight = rowHeight
	height := 0
	for _, p := range theDashboard(t).Panels {
		view := shown{panel: p}
		height = max(height, (p.GridPos.Y+p.GridPos.H)*rowHeight+16)
		var lines []line
		for _, target := range p.Targets {
			shown := promv1.Range{Start: began, End: end, Step: resolution}
			if target.Instant {
				shown.Start = end
			}
			value, _, _, err := s.QueryRange(t.Context(), variables.Replace(target.Expr), shown)
			if err != nil {
				t.Fatal(err)
			}
			for _, series := range value.(model.Matrix) {
				lines = append(lines, line{legend(target.LegendFormat, series.Metric), series})
			}
		}
		slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
		unit := p.FieldConfig.Defaults.Unit
		switch p.Type {
		case "stat":
			view.Stat = "0" // as Grafana has "No data"
			if len(lines) > 0 {
				values := lines[0].Values
				view.Stat = show(float64(values[len(values)-1].Value), unit)
			}
		case "table":
			for _, l := range lines {
				view.Table = append(view.Table, l.name)
			}
		case "timeseries":
			view.Chart = plot(lines, p, began, end)
			for i, l := range lines {
				view.Legend = append(view.Legend, entry{ink(i), l.name})
			}
		}
		content.Panels = append(content.Panels, view)
	}
	html := filepath.Join(t.TempDir(), "dashboard.html")
	f, err := os.Create(html)
	if err == nil {
		err = errors.Join(page.Execute(f, content), f.Close())
	}
	to, pathErr := filepath.Abs(*picture)
	if err := errors.Join(err, pathErr); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(installed(t, "chromium", "chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=%d,%d", pictureWidth, height), "--screenshot="+to, "file://"+html)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
	if err := pack(to); err != nil {
		t.Fatal(err)
	}
}

// pack makes a PNG small: with the 256 colors that are most in it, a byte a pixel.
func pack(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoded, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return err
	}
	frame := decoded.Bounds()
	count := map[color.Color]int{}
	for y := range frame.Dy() {
		for x := range frame.Dx() {
			count[decoded.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	paletted := image.NewPaletted(frame, colors[:min(len(colors), 256)])
	nearest := map[color.Color]color.Color{}
	for y := range frame.Dy() {
		for x := range frame.Dx() {
			c := decoded.At(x, y)
			if nearest[c] == nil {
				nearest[c] = paletted.Palette.Convert(c)
			}
			paletted.Set(x, y, nearest[c])
		}
	}
	var packed bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&packed, paletted); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644) //nolint:gosec // a file of the repository
}

// live has things happen, now more and now less, with a restart of the API server in the middle.
func (d *monitored) live(during time.Duration) {
	d.t.Helper()
	secrets, deployments, ctx := d.server.client.CoreV1().Secrets("monitored"), d.server.client.AppsV1().Deployments("monitored"), d.t.Context()
	labels := map[string]string{"app": "web"}
	web, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	restarted := false
	for began := time.Now(); time.Since(began) < during; <-ticker.C {
		part := float64(time.Since(began)) / float64(during)
		if !restarted && part > 0.5 {
			restarted = true
			if err := d.server.RestartAPIServer(ctx); err != nil {
				d.t.Fatal(err)
			}
		}
		for range 1 + int(3*math.Pow(math.Sin(4*math.Pi*part), 2)) {
			d.churn()
		}
		if d.made%7 == 0 {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", d.made)}}
			if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				d.t.Fatal(err)
			}
		}
		if d.made%5 == 0 {
			replicas := int32(d.made % 10) //nolint:gosec // below 10
			web.Spec.Replicas, web.ResourceVersion = &replicas, ""
			if web, err = deployments.Update(ctx, web, metav1.UpdateOptions{}); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// line is one series and its name.
type line struct {
	name string
	*model.SampleStream
}

// legend puts labels into a panel's legend. Without one it is all that a table shows.
func legend(format string, labels model.Metric) string {
	if format == "" {
		var all []string
		for name, value := range labels {
			if !slices.Contains([]model.LabelName{model.MetricNameLabel, "job", "instance"}, name) {
				all = append(all, fmt.Sprintf("%s: %s", name, value))
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	for name, value := range labels {
		format = strings.ReplaceAll(format, "{{"+string(name)+"}}", string(value))
	}
	for _, absent := range []string{"{{group}}", "{{origin}}"} { // an empty label is none
		format = strings.ReplaceAll(format, absent, "")
	}
	return strings.TrimSpace(format)
}

func ink(i int) string {
	colors := []string{"#3274d9", "#299c46", "#e0752d", "#a352cc", "#e02f44", "#1f9e9e", "#b8860b", "#6e7780", "#c15c17", "#0a437c"}
	return colors[i%len(colors)]
}

// plot draws lines over time.
func plot(lines []line, p panel, began, end time.Time) template.HTML {
	const left, bottom = 62, 18
	width := float64(p.GridPos.W)/24*pictureWidth - 30
	height := float64(p.GridPos.H*rowHeight) - 75
	high := 0.0
	if limit := p.FieldConfig.Defaults.Max; limit != nil {
		high = *limit
	}
	for _, l := range lines {
		for _, v := range l.Values {
			if f := float64(v.Value); !math.IsNaN(f) {
				high = max(high, f)
			}
		}
	}
	tick := round(high / 4)
	high = tick * math.Ceil(max(high/tick, 1))
	x := func(at time.Time) float64 {
		return left + (width-left)*float64(at.Sub(began))/float64(end.Sub(began))
	}
	y := func(v float64) float64 { return (height - bottom) * (1 - v/high) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 -6 %.0f %.0f" preserveAspectRatio="none">`, width, height+6)
	for v := 0.0; v < high+tick/2; v += tick {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%.0f" stroke="#e8eaed"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, y(v), width, left-6, y(v)+3, template.HTMLEscapeString(show(v, p.FieldConfig.Defaults.Unit)))
	}
	for at := began.Truncate(2 * time.Minute).Add(2 * time.Minute); at.Before(end); at = at.Add(2 * time.Minute) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x(at), height-4, at.UTC().Format("15:04"))
	}
	for i, l := range lines {
		var path strings.Builder
		command := "M"
		for _, v := range l.Values {
			if math.IsNaN(float64(v.Value)) {
				command = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, x(v.Timestamp.Time()), y(float64(v.Value)))
			command = "L"
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.4"/>`, path.String(), ink(i))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers, and what has been escaped
}

// round is a distance between the lines of a grid: 1, 2 or 5 of something.
func round(v float64) float64 {
	if v == 0 {
		return 0.25
	}
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if v <= factor*ten {
			return factor * ten
		}
	}
	return 10 * ten
}

// show is a value in a unit, as a person reads it.
func show(v float64, unit string) string {
	scaled := func(v, by float64, suffixes ...string) string {
		i := 0
		for ; math.Abs(v) >= by && i < len(suffixes)-1; i++ {
			v /= by
		}
		return strings.TrimSpace(fmt.Sprintf("%.3g %s", v, suffixes[i]))
	}
	switch unit {
	case "s":
		switch {
		case v >= 60:
			return fmt.Sprintf("%.3g min", v/60)
		case v > 0 && v < 1:
			return scaled(v*1e6, 1000, "µs", "ms", "s")
		}
		return fmt.Sprintf("%.3g s", v)
	case "bytes":
		return scaled(v, 1024, "B", "KiB", "MiB", "GiB")
	case "Bps":
		return scaled(v, 1000, "B/s", "kB/s", "MB/s")
	case "cps":
		return scaled(v, 1000, "/s", "K/s")
	case "percentunit":
		return fmt.Sprintf("%.3g%%", v*100)
	case "bool_yes_no":
		if v != 0 {
			return "Yes"
		}
		return "No"
	}
	return scaled(v, 1000, "", "K", "M")
}
