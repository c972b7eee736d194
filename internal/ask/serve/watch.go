package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

const (
	// minWatch and maxWatch bound how long a watch stays open; without timeoutSeconds it is the first.
	minWatch = 30 * time.Minute
	maxWatch = 24 * time.Hour
	// tick is how often a moment that moves is looked at, and bookmark how often a watch is told where it is.
	tick     = 200 * time.Millisecond
	bookmark = 10 * time.Second
	// maxWatches bounds how many are open at once.
	maxWatches = 1000
)

// watcher sends the events of one watch.
type watcher struct {
	*view
	w       http.ResponseWriter
	control *http.ResponseController
	pos     *question.Position
	matched map[string]bool // objects that are selected, by key; nil where names alone select
	headers bool            // of a table, which its first event has
	sent    string          // version of the last bookmark
}

// watch answers with events: what was there, if that is asked for. then sends what comes after it.
func (v *view) watch(ctx context.Context, w http.ResponseWriter) (then func(context.Context) error, err error) {
	if v.form.kind == asPartialList {
		v.form.kind = asPartial
	}
	v.whole = true
	x := &watcher{view: v, w: w, control: http.NewResponseController(w), headers: true}
	if v.selective() {
		x.matched = map[string]bool{}
	}
	items, err := x.begin(ctx)
	if err != nil {
		return nil, err
	}
	v.warn(w)
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(http.StatusOK)
	if err := errors.Join(x.flush(), x.first(ctx, items)); err != nil {
		v.s.broken(err)
	}
	return x.run, nil
}

// begin finds where the watch begins, and returns the objects that are sent first.
func (x *watcher) begin(ctx context.Context) ([]question.Item, error) {
	pos, err := x.p.position(ctx, &x.all, x.at)
	if err != nil {
		return nil, err
	}
	x.pos = pos
	is, _ := line.VersionNumber([]byte(pos.Version))
	fromNow := x.resourceVersion == "" || x.resourceVersion == "0"
	initial := fromNow
	if x.initial != nil {
		initial = *x.initial
	}
	asked, ok := uint64(0), false
	if !fromNow {
		if asked, ok = line.VersionNumber([]byte(x.resourceVersion)); !ok {
			return nil, badRequest("Invalid value: %q: must be a number", x.resourceVersion)
		}
	}
	if initial && asked > is {
		return nil, tooLarge(asked, is)
	}
	if !fromNow && !initial && asked != is {
		x.p.mu.Lock()
		x.pos, ok, err = x.p.j.AtVersion(ctx, &x.all, asked)
		x.p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if !ok || asked > is { // or of a moment that was served before
			return nil, expired(fmt.Sprintf("too old resource version: %s (%s)", x.resourceVersion, pos.Version))
		}
		x.at = argument.Moment{Seq: max(x.pos.Seq(), 1)}
	}
	if !initial && x.matched == nil {
		return nil, nil
	}
	items, err := x.items(ctx)
	if err != nil || initial {
		return items, err
	}
	// What was selected then is not sent, but that it is not any more will be.
	err = x.each(ctx, items, func(of []question.Item, texts [][]byte) (bool, error) {
		for i, text := range texts {
			if text != nil {
				x.matched[keyOf(&of[i])] = true
			}
		}
		return true, nil
	})
	return nil, err
}

// first sends what was there.
func (x *watcher) first(ctx context.Context, items []question.Item) error {
	err := x.each(ctx, items, func(of []question.Item, texts [][]byte) (bool, error) {
		for i, text := range texts {
			if text == nil {
				continue
			}
			if x.matched != nil {
				x.matched[keyOf(&of[i])] = true
			}
			if err := x.send("ADDED", text); err != nil {
				return false, err
			}
		}
		return true, x.flush()
	})
	if err == nil && x.bookmarks && x.initial != nil && *x.initial {
		err = x.bookmark(true)
	}
	return err
}

// run sends events until the context ends.
func (x *watcher) run(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for told := time.Now(); ; {
		more := false
		if err := x.s.source.ask(ctx, func(p *past) (err error) {
			x.p = p
			more, err = x.events(ctx)
			return err
		}); err != nil || !more {
			return err
		}
		if x.bookmarks && time.Since(told) > bookmark {
			if told = time.Now(); x.pos.Version != "" {
				if err := x.bookmark(false); err != nil {
					return err
				}
			}
		}
		if !x.served.moves() {
			ticks.Reset(bookmark)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.s.ending:
			return nil
		case <-x.served.moved:
			return x.expire("too old resource version: another moment is served")
		case <-ticks.C:
		}
	}
}

// events sends what has come up to the moment. It reports whether the watch goes on.
func (x *watcher) events(ctx context.Context) (bool, error) {
	at := x.served.moment()
	x.p.mu.Lock()
	events, err := x.p.j.EventsAfter(ctx, &x.all, x.pos, at)
	x.p.mu.Unlock()
	if err != nil || len(events) == 0 {
		return err == nil, err
	}
	for _, e := range events {
		if e.Type == index.Gap {
			return false, x.expire("too old resource version: the journal has a gap there")
		}
		typ, text, err := x.event(ctx, &e)
		if err == nil && typ != "" {
			err = x.send(typ, text)
		}
		if errors.Is(err, errGone) {
			return false, err
		} else if err != nil {
			// Not once more with other files: some were sent. The client asks again from the last that it has.
			return false, fmt.Errorf("send an event: %v", err) //nolint:errorlint // as above
		}
	}
	return true, x.flush()
}

// expire tells the client to list again.
func (x *watcher) expire(text string) error {
	return errors.Join(x.write("ERROR", encodeStatus(statusOf(expired(text)))), x.flush())
}

// event returns the event of a line, if its object is selected, or was.
func (x *watcher) event(ctx context.Context, e *question.Event) (typ string, text []byte, err error) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	l, err := x.p.j.Line(ctx, e.Place)
	if err != nil || l == nil {
		return "", nil, err
	}
	if version := l.Unquoted(line.FieldResourceVersion); version != "" && l.Origin() != line.FromRelist {
		x.pos.Version = version
	}
	typ = map[index.Type]string{index.Added: "ADDED", index.Modified: "MODIFIED", index.Deleted: "DELETED"}[e.Type]
	item := question.Item{
		Namespace: l.Unquoted(line.FieldNamespace), Name: l.Unquoted(line.FieldName), UID: l.Unquoted(line.FieldUID),
	}
	if typ == "" || !x.selects(&item) || !x.matchesNames(&item) {
		return "", nil, nil
	}
	if x.matched != nil {
		key := keyOf(&item)
		matches, _ := x.selector(x.k).Match(l)
		was := x.matched[key]
		if matches = matches && typ != "DELETED"; matches {
			x.matched[key] = true
		} else {
			delete(x.matched, key)
		}
		switch {
		case !matches && !was:
			return "", nil, nil
		case !matches && typ != "DELETED": // it is sent as it was when it was selected
			text, err = x.before(ctx, &item, e.Place.Seq, l.Unquoted(line.FieldResourceVersion))
			return "DELETED", text, err
		case was && typ == "ADDED": // seen already
			typ = "MODIFIED"
		case !was:
			typ = "ADDED"
		}
	}
	if now := x.served.moment().Time; !now.IsZero() {
		x.now = now
	}
	text, err = x.item(x.k.object(l, &item))
	return typ, text, err
}

// before returns an object as it was before a line, at the version of that. x.p.mu is held.
func (x *watcher) before(ctx context.Context, item *question.Item, seq uint64, version string) ([]byte, error) {
	one, err := argument.ParseObject(x.k.recorded().name() + "/" + item.Name)
	if err != nil {
		return nil, err
	}
	s := &argument.Selection{Objects: []argument.Object{one}}
	if item.Namespace != "" {
		s.Namespaces = []string{item.Namespace}
	}
	st, err := x.p.j.State(ctx, s, argument.Moment{Seq: seq - 1})
	if err != nil {
		return nil, err
	}
	// Where the line before is gone, its object is known by name.
	o := object{apiVersion: x.k.apiVersion(), raw: fmt.Appendf(nil, `{"metadata":{"name":%s,"namespace":%s,"uid":%s,`+
		`"resourceVersion":""}}`, quoted(item.Name), quoted(item.Namespace), quoted(item.UID))}
	for i := range st.Items {
		l, err := x.p.j.Line(ctx, st.Items[i].Last)
		if err != nil {
			return nil, err
		}
		if l != nil {
			o = x.k.object(l, item)
		}
	}
	o.raw = withVersion(o.raw, version)
	return x.item(o)
}

// selects reports whether an object is in the namespace, and has the name, that are asked for.
func (x *watcher) selects(i *question.Item) bool {
	return (len(x.of.Namespaces) == 0 || x.of.Namespaces[0] == i.Namespace) && (x.name == "" || x.name == i.Name)
}

// send sends an event about an object, as append has it.
func (x *watcher) send(typ string, text []byte) error {
	if x.form.kind == asTable {
		head, err := x.printer.appendHead(nil, x.form, []byte("{}"), x.headers)
		if err != nil {
			return err
		}
		x.headers = false
		text = append(append(head, text...), "]}"...)
	}
	return x.write(typ, text)
}

func (x *watcher) write(typ string, object []byte) error {
	_ = x.control.SetWriteDeadline(time.Now().Add(writeTime)) // there is none in a recorder
	_, err := fmt.Fprintf(x.w, "{\"type\":%q,\"object\":%s}\n", typ, object)
	return gone(err)
}

// bookmark tells where the watch is: everything up to that version was sent. end says that what was there was sent.
func (x *watcher) bookmark(end bool) error {
	if !end && x.sent == x.pos.Version {
		return nil
	}
	x.sent = x.pos.Version
	annotations := ""
	if end {
		annotations = fmt.Sprintf(`,"annotations":{%q:"true"}`, metav1.InitialEventsAnnotationKey)
	}
	o := object{apiVersion: x.k.apiVersion(), raw: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%s%s}}`,
		quoted(x.pos.Version), annotations)}
	var text []byte
	if x.form.kind == asTable { // a row without cells
		text = append(x.k.appendPartial([]byte(`{"cells":[],"object":`), o, x.form.apiVersion()), '}')
	} else {
		text, _ = x.item(o) // no table, no error
	}
	if err := x.send("BOOKMARK", text); err != nil {
		return err
	}
	return x.flush()
}

// flush sends what was written.
func (x *watcher) flush() error {
	_ = x.control.SetWriteDeadline(time.Now().Add(writeTime)) // there is none in a recorder
	return gone(x.control.Flush())
}
