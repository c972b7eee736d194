// Package report writes one HTML page about an incident: what happened to the selected objects between two moments, as
// a journal has it, with the versions of each, who wrote them, and what is not known. The page needs no network, and no
// other file.
package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/explain"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// Limits of a page. What is beyond them is left out, and the page says so.
const (
	MaxVersions = 20_000
	maxText     = 48 << 20  // bytes of YAML, unpacked
	maxObject   = 256 << 10 // of one object
	maxWhy      = 200       // versions whose causes are on the page
	maxSmall    = 2_000     // versions of a page with the causes of all kinds of changes
)

// Report says what a page is about.
type Report struct {
	Title        string
	Since, Until argument.Moment
	Args, Flags  []string // of a command that asks the same: what is selected, and in which journal
	Doubts       []question.Doubt
	Form         *Form // of a page that a server answers with; else nil
}

// Form is what a page was asked for, to be asked for something else.
type Form struct {
	Objects, Namespace, Since, Until string // as arguments of a command
	Related                          bool
	Moment, When                     string // where to say which moment is served, and which it is
}

// page is what the page has. Its JSON is read by page.js.
type page struct {
	Title    string   `json:"title"`
	Cluster  string   `json:"cluster"`
	From     int64    `json:"from"` // milliseconds: of what the page has
	To       int64    `json:"to"`
	Since    int64    `json:"since"` // the times that were asked for, else From and To
	Until    int64    `json:"until"`
	Args     string   `json:"args"`  // of a question about the same
	Flags    string   `json:"flags"` // that name the same journal
	Merged   bool     `json:"merged"`
	Doubts   []string `json:"doubts"`
	Notes    []string `json:"notes"`
	Streams  []stream `json:"streams"`
	Objects  []object `json:"objects"`
	Versions []version
	Symptoms []symptom      `json:"symptoms"`
	Why      map[int]string `json:"why"` // by version
	Rule     string         `json:"rule"`

	Doubtful bool      `json:"-"`
	Form     *Form     `json:"-"`
	Written  time.Time `json:"written"`
}

// stream is when a stream was not watched, and when it was read late.
type stream struct {
	Name  string `json:"n"`
	Holes []hole `json:"h"`
	Late  []hole `json:"l"`
}

type hole struct {
	From int64  `json:"f"` // 0: from the beginning
	To   int64  `json:"t"` // 0: to the end
	Why  string `json:"y"`
}

type object struct {
	Resource  string  `json:"r"` // with its group, as kubectl takes it; "" of what the page knows by its name alone
	Kind      string  `json:"k"`
	Namespace string  `json:"s"`
	Name      string  `json:"n"`
	UID       string  `json:"u"`
	Owner     int     `json:"o"` // -1 for none
	Lane      int     `json:"l"` // on which it is shown: of an Event, that of what it is about
	App       string  `json:"a"` // by its labels
	Stream    int     `json:"w"`
	States    []state `json:"b"`
	Base      string  `json:"y"` // its lines before the first version

	ownerKind, ownerName, ownerUID string
	regarding                      [4]string // kind, namespace, name, uid
}

type version struct {
	Seq      uint64 `json:"q"`
	At       int64  `json:"t"`           // when the change was made, as far as that is known; else received
	Received int64  `json:"r,omitempty"` // where that was late
	After    int64  `json:"u,omitempty"` // it is not known when between this and At the change was made
	Type     string `json:"y"`
	Object   int    `json:"o"` // -1 of a stream
	Kind     string `json:"k"` // of change, see kindOf
	Noise    bool   `json:"n,omitempty"`
	Who      string `json:"w,omitempty"`
	Manager  string `json:"m,omitempty"`
	Person   string `json:"p,omitempty"`
	What     string `json:"x"`
	Symptom  string `json:"s,omitempty"`
	Lacks    string `json:"i,omitempty"` // why there is no YAML of it
	Lines    []hunk `json:"d,omitempty"` // what it changes in them

	written int64  // milliseconds, of a whole second, as the server says; 0 where it does not
	server  uint64 // version
}

// Gather reads a journal. What the page says of doubts is said on the output too. The error is answer.ErrNotCovered
// where there are some: the page is there all the same.
func (r *Report) Gather(ctx context.Context, a *answer.Asked) (*Page, error) {
	g := &gatherer{
		r: r, a: a, uids: map[string]int{}, documents: map[int]*document{}, specs: map[int][]byte{},
		gaps: map[string]time.Time{}, streams: map[string]int{}, named: map[int]map[string]bool{},
		restarted: map[int]int{},
	}
	g.Title, g.Rule, g.Written, g.Form = r.Title, Rule, time.Now(), r.Form
	g.Cluster, g.Merged = terminal.Line(a.Cluster), a.Journal.Merged()
	flags := r.Flags
	if a.Cluster != "" {
		flags = append(slices.Clip(flags), "--cluster", a.Cluster)
	}
	g.Args, g.Flags = words(r.Args), words(flags)
	g.cover()
	for v, err := range a.Journal.History(ctx, a.Selection, r.Since, r.Until) {
		if err != nil {
			return nil, err
		}
		if err := g.take(ctx, v); err != nil {
			return nil, err
		}
	}
	g.place()
	g.dropUnchanged()
	for lane, spec := range g.specs {
		g.named[lane] = map[string]bool{}
		names(g.named[lane], spec, 0)
	}
	g.rank()
	if err := g.explain(ctx); err != nil {
		return nil, err
	}
	err := g.doubt(ctx)
	g.window()
	return &Page{&g.page, len(g.Versions), g.seen}, err
}

var isFlag = regexp.MustCompile(`^--?[a-z-]+$`)

func words(args []string) string {
	var all []string
	for _, arg := range args {
		if !isFlag.MatchString(arg) {
			arg = terminal.ShellWord(arg)
		}
		all = append(all, arg)
	}
	return strings.Join(all, " ")
}

// doubt says what is not covered, as history does.
func (g *gatherer) doubt(ctx context.Context) error {
	doubts, err := g.a.Journal.Uncovered(ctx, g.a.Selection, g.r.Since, g.r.Until)
	if err != nil {
		return err
	}
	doubts = slices.Concat(g.r.Doubts, doubts)
	g.Doubts, g.Notes = []string{}, []string{}
	to := &g.Doubts
	o := &answer.Output{Said: func(n answer.Note) { *to = append(*to, strings.TrimPrefix(n.Text, "not covered: ")) }}
	g.Doubtful = o.Doubt(doubts) != nil
	to = &g.Notes
	o.HeldBack(g.a.Journal.HeldBack(g.a.Selection, g.r.Since, g.r.Until))
	if left := g.seen - len(g.Versions); left > 0 {
		last := g.Versions[len(g.Versions)-1]
		g.left("%d versions after seq %d: a page has the first %d; name less time or fewer objects", left, last.Seq, MaxVersions)
	}
	if g.large > 0 {
		g.left("the YAML of %s: of objects over 256 KiB, and beyond 48 MiB in all; 'kubejournal get --at seq:N -o yaml' has it",
			terminal.Count(g.large, "version", "versions"))
	}
	if g.unchanged > 0 {
		g.left("the YAML of %s that existed at first sight and did not change",
			terminal.Count(g.unchanged, "object", "objects"))
	}
	if g.removed > 0 {
		g.Doubtful = true
		g.Doubts = append(g.Doubts, fmt.Sprintf("what %s changed is not known: lines before were removed",
			terminal.Count(g.removed, "version", "versions")))
		g.a.Output.Note("%s", g.Doubts[len(g.Doubts)-1])
	}
	if err := g.a.Output.Doubt(doubts); err != nil || !g.Doubtful {
		return err
	}
	return answer.ErrNotCovered
}

func (g *gatherer) left(format string, args ...any) {
	text := "left out: " + fmt.Sprintf(format, args...)
	g.Notes = append(g.Notes, text)
	g.a.Output.Note("%s", text)
}

// cover notes when the streams were not watched.
func (g *gatherer) cover() {
	streams, err := g.a.Journal.Coverage(g.a.Selection)
	if err != nil {
		return // which is a doubt
	}
	for i := range streams {
		s, is := &streams[i], stream{Name: terminal.Line(streams[i].Name), Holes: []hole{}, Late: []hole{}}
		for n := range s.Intervals {
			in := &s.Intervals[n]
			switch {
			case n == 0:
				is.Holes = append(is.Holes, hole{0, in.From.UnixMilli(), "not watched yet"})
			case in.From.After(s.Intervals[n-1].To):
				is.Holes = append(is.Holes,
					hole{s.Intervals[n-1].To.UnixMilli(), in.From.UnixMilli(), answer.Why(s.Intervals[n-1].End)})
			}
			if in.Late {
				is.Late = append(is.Late, hole{in.From.UnixMilli(), in.To.UnixMilli(), "received late"})
			}
			if n == len(s.Intervals)-1 {
				why := answer.Why(in.End)
				if in.End == "" {
					why = question.NotConfirmed
				}
				is.Holes = append(is.Holes, hole{in.To.UnixMilli(), 0, why})
				g.confirmed = max(g.confirmed, in.To.UnixMilli())
			}
		}
		g.streams[s.Name] = len(g.Streams)
		g.Streams = append(g.Streams, is)
	}
}

// window finds out from when to when the page is: as was asked, else from the first version to the last covered time. A
// version that was made in that time may have been received after it, and stand there.
func (g *gatherer) window() {
	for i := range g.Versions {
		t := g.Versions[i].At
		if g.From == 0 || t < g.From {
			g.From = t
		}
		g.To = max(g.To, t)
	}
	if g.r.Until.IsZero() {
		g.To = max(g.To, g.confirmed)
	}
	if from := g.r.Since.Time; !from.IsZero() {
		g.Since = from.UnixMilli()
		g.From = min(cmp.Or(g.From, g.Since), g.Since)
	}
	if to := g.r.Until.Time; !to.IsZero() {
		g.Until = to.UnixMilli()
		g.To = max(g.To, g.Until)
	}
	if g.From == 0 {
		g.From = g.To
	}
	g.To = max(g.To, g.From+1000)
	g.Since, g.Until = cmp.Or(g.Since, g.From), cmp.Or(g.Until, g.To)
}

// dropUnchanged leaves out the YAML of what was there when the journal began and stayed as it was.
func (g *gatherer) dropUnchanged() {
	versions := map[int]int{}
	for i := range g.Versions {
		versions[g.Versions[i].Object]++
	}
	for i := range g.Versions {
		if v := &g.Versions[i]; v.Kind == "f" && versions[v.Object] == 1 {
			v.Lines, v.Lacks = nil, "it was there when the journal began, and did not change on this page"
			g.unchanged++
		}
	}
}

// explain asks why of the first symptom of each lane, of deletions and, on a small page, of what else changed, until
// there are enough.
func (g *gatherer) explain(ctx context.Context) error {
	g.Why = map[int]string{}
	var all []int
	for _, s := range g.Symptoms {
		all = append(all, s.Version)
	}
	kinds := []string{"d", "t", "s", "amc"}
	if len(g.Versions) > maxSmall {
		kinds = kinds[:1]
	}
	for _, kinds := range kinds {
		for n := range g.Versions {
			if v := &g.Versions[n]; strings.Contains(kinds, v.Kind) && v.Kind != "" && !v.Noise {
				all = append(all, n)
			}
		}
	}
	asked := map[int]bool{}
	for _, n := range all {
		v := &g.Versions[n]
		o := &g.Objects[v.Object]
		if o.regarding[2] != "" || o.Resource == "" || asked[n] {
			continue // why is about what an Event is about
		}
		if asked[n] = true; len(asked) > maxWhy {
			continue
		}
		of, err := argument.ParseObject(o.Resource + "/" + o.Name)
		if err != nil {
			continue // it is no name that the API takes
		}
		s := &argument.Selection{Objects: []argument.Object{of}}
		if o.Namespace != "" {
			s.Namespaces = []string{o.Namespace}
		}
		var said bytes.Buffer
		to := terminal.NewWriter(&said, false)
		one := *g.a
		one.Selection, one.Output = s, &answer.Output{Writer: to, Notes: to}
		w := explain.Why{At: argument.Moment{Seq: v.Seq}, Format: "cells", Flags: g.r.Flags}
		err = w.Print(ctx, &one, nil)
		_, unknown := errors.AsType[*argument.UnknownError](err)
		if err != nil && !answer.IsResult(err) && !unknown {
			return err
		}
		if !unknown {
			g.Why[n] = said.String()
		}
	}
	if len(asked) > maxWhy {
		g.left("the causes of %s: a page has those of %d; 'kubejournal why' has them",
			terminal.Count(len(asked)-maxWhy, "version", "versions"), maxWhy)
	}
	return nil
}

// kindOf returns which kind of change a version is: (a)dded, (f)ound when the journal began or a gap ended, (d)eleted,
// deletion asked for (t), (s)pec, (m)etadata, status (c), Warning (w), other (e)vent, or a mark of a stream (g).
func kindOf(v *archive.Version, paths []string) string {
	switch {
	case v.Type() == line.Deleted:
		return "d"
	case v.Type() == line.Added && v.Snapshot():
		return "f"
	case v.Type() == line.Added:
		return "a"
	}
	kind := ""
	for _, path := range paths {
		own := "s"
		switch {
		case path == "/metadata/deletionTimestamp":
			return "t"
		case strings.HasPrefix(path, "/metadata"):
			own = "m"
		case strings.HasPrefix(path, "/status"), path == "/spec/nodeName": // where a pod was bound to
			own = "c"
		}
		if kind == "" || own == "s" || own == "m" && kind == "c" {
			kind = own
		}
	}
	if kind == "m" && slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, "/status") }) &&
		!slices.ContainsFunc(paths, func(p string) bool {
			return strings.HasPrefix(p, "/metadata") && !slices.Contains(bookkeeping, p) &&
				!strings.HasPrefix(p, "/metadata/managedFields")
		}) {
		return "c"
	}
	return kind
}

var bookkeeping = []string{"/metadata/resourceVersion", "/metadata/generation"}
