package serve

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// What of an answer is in memory at once, in bytes of lines: of one that is streamed, and of a page, which says before
// its objects where the next one begins.
const (
	batchBytes = 8 << 20
	pageBytes  = 64 << 20
)

// view is what a request asks of the journals.
type view struct {
	*options
	s   *Server
	p   *past
	k   *kind
	of  argument.Selection // all objects that are asked for, but for labels and fields
	all argument.Selection // all of the resource
	now time.Time          // the moment, for ages

	whole    bool // objects have kind and apiVersion each, as in events
	printer  *printer
	warnings []string

	mu    sync.Mutex
	lacks map[string][]string // names of objects, by why they are not whole; guarded by mu
}

func (s *Server) view(ctx context.Context, p *past, k *kind, t target, o *options) (*view, error) {
	word := k.recorded().name()
	resource, err := argument.ParseObject(word)
	if err != nil {
		return nil, errNoPath
	}
	v := &view{options: o, s: s, p: p, k: k, now: o.at.Time, lacks: map[string][]string{}}
	v.all.Objects = []argument.Object{resource}
	if o.name != "" {
		if resource, err = argument.ParseObject(word + "/" + o.name); err != nil {
			return nil, notFound(k, o.name)
		}
	}
	v.of.Objects = []argument.Object{resource}
	if t.namespace != "" {
		v.of.Namespaces = []string{t.namespace}
	}
	if o.form.kind == asTable {
		v.printer = printerOf(k)
	}
	if v.now.IsZero() {
		if v.now, err = s.timeOf(ctx, p, o.at); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// items returns the objects that may be asked for, in the order in which a Kubernetes API server lists them, which is
// that of its keys, and notes what is in doubt.
func (v *view) items(ctx context.Context) ([]question.Item, error) {
	o, err := v.p.objects(ctx, &v.of, v.at, v.k.Namespaced)
	if err != nil {
		return nil, err
	}
	v.doubt(o.doubts, o.gone)
	if v.named() == 0 {
		return o.items, nil
	}
	items := slices.Clone(o.items)
	return slices.DeleteFunc(items, func(i question.Item) bool { return !v.matchesNames(&i) }), nil
}

// keyOf returns the key of an object below that of its resource.
func keyOf(i *question.Item) string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// matchesNames reports whether an object's name and namespace are selected.
func (v *view) matchesNames(i *question.Item) bool {
	for _, r := range v.fields.Requirements() {
		var is string
		switch r.Field {
		case metadataName:
			is = i.Name
		case metadataNamespace:
			is = i.Namespace
		default:
			continue
		}
		if (r.Operator == "!=") == (is == r.Value) {
			return false
		}
	}
	return true
}

// get answers with one object.
func (v *view) get(ctx context.Context, w http.ResponseWriter) error {
	if v.form.kind == asPartialList {
		return failed(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested PartialObjectMetadataList, but the requested object is not a list (%s)", v.k.Kind)
	}
	items, err := v.items(ctx)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		v.warn(w)
		return notFound(v.k, v.name)
	}
	var text []byte
	err = v.p.read(ctx, items[:1], func(_ int, l *line.Fields) (err error) {
		o := v.note(l, &items[0])
		switch v.form.kind {
		case asPartial:
			text = v.k.appendPartial(nil, o, v.form.apiVersion())
		case asTable:
			version := quoted(l.Unquoted(line.FieldResourceVersion))
			text, err = v.printer.appendHead(nil, v.form, fmt.Appendf(nil, `{"resourceVersion":%s}`, version), true)
			if err == nil {
				text, err = v.printer.appendRow(text, v.k, o, v.include, v.form, v.now)
			}
			text = append(text, "]}"...)
		default:
			text = v.k.appendWhole(nil, o)
		}
		return err
	})
	if err != nil {
		return err
	}
	v.warn(w)
	if v.pretty {
		text = indented(text)
	}
	writeJSON(w, http.StatusOK, text)
	return nil
}

// note returns the object of a line, and notes what it lacks.
func (v *view) note(l *line.Fields, item *question.Item) object {
	o := v.k.object(l, item)
	if o.lacks == metadataAlone && (v.form.kind == asPartial || v.form.kind == asPartialList) {
		o.lacks = "" // it is all that is asked for
	}
	switch {
	case o.lacks != "":
	case o.apiVersion != v.k.apiVersion():
		o.lacks = "recorded as " + o.apiVersion + ", and given as that"
	case v.form.kind == "" && bytes.Contains(o.raw, []byte(`"REDACTED"`)):
		if o.lacks = "values are REDACTED, as they are in the journal"; bytes.Contains(o.raw, []byte(`"helm.sh/release.v1"`)) {
			o.lacks += ": helm finds no release in it"
		}
	}
	if o.lacks != "" {
		v.mu.Lock()
		v.lacks[o.lacks] = append(v.lacks[o.lacks], keyOf(item))
		v.mu.Unlock()
	}
	return o
}

// list answers with a list.
func (v *view) list(ctx context.Context, w http.ResponseWriter) error {
	if v.form.kind == asPartial {
		return failed(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested PartialObjectMetadata, but the requested object is a list (%s)", v.k.ListKind)
	}
	if err := v.atVersion(ctx); err != nil {
		return err
	}
	items, err := v.items(ctx)
	if err != nil {
		return err
	}
	if v.start != "" {
		n, _ := slices.BinarySearchFunc(items, v.start, func(i question.Item, start string) int {
			return strings.Compare(keyOf(&i), start)
		})
		items = items[n:]
	}
	if v.limit > 0 && v.limit < len(items) {
		return v.page(ctx, w, items)
	}
	return v.stream(ctx, w, items)
}

// atVersion sets the version of the list and, where a certain one is asked for, the moment.
func (v *view) atVersion(ctx context.Context) error {
	if v.version != "" {
		return nil // of the page before
	}
	pos, err := v.p.position(ctx, &v.all, v.at)
	if err != nil {
		return err
	}
	v.version = pos.Version
	if v.resourceVersion == "" || v.resourceVersion == "0" {
		return nil
	}
	asked, ok := line.VersionNumber([]byte(v.resourceVersion))
	if !ok {
		return badRequest("Invalid value: %q: %s", v.resourceVersion, "must be a number")
	}
	if is, ok := line.VersionNumber([]byte(pos.Version)); ok && asked > is {
		return tooLarge(asked, is)
	}
	if v.match == metav1.ResourceVersionMatchExact || v.match == "" && v.limit > 0 {
		v.at, v.version = argument.Moment{Version: asked}, v.resourceVersion
	}
	return nil
}

// tooLarge is the answer to a version that is still to come.
func tooLarge(asked, is uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, is), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return &failure{err.Status()}
}

// each calls fn with batches of what is written for items: nil for what is not selected.
func (v *view) each(
	ctx context.Context, items []question.Item, fn func(items []question.Item, texts [][]byte) (bool, error),
) error {
	selects := v.selector(v.k)
	for len(items) > 0 {
		n := min(len(items), 1000)
		if v.limit > 0 && !v.selective() {
			n = min(n, v.limit+1)
		}
		batch := slices.Clone(items[:n]) // others read them too
		if err := v.p.describe(ctx, batch); err != nil {
			return err
		}
		size := int64(0)
		for i := range batch {
			if size += batch[i].Size; size > batchBytes && i > 0 {
				n = i
				break
			}
		}
		batch, texts := batch[:n], make([][]byte, n)
		unread, of := v.known(batch, texts)
		err := v.p.read(ctx, unread, func(i int, l *line.Fields) (err error) {
			if of != nil {
				i = of[i]
			}
			if v.selective() {
				matches, known := selects.Match(l)
				if !known {
					v.mu.Lock()
					const why = "not known whether it is selected: truncated"
					v.lacks[why] = append(v.lacks[why], keyOf(&batch[i]))
					v.mu.Unlock()
				}
				if !matches {
					return nil
				}
			}
			o := v.note(l, &batch[i])
			if texts[i], err = v.item(o); of != nil && err == nil && o.lacks == "" {
				v.p.rows.keep(v.row(&batch[i]), texts[i])
			}
			return err
		})
		if err != nil {
			return err
		}
		more, err := fn(batch, texts)
		if err != nil || !more {
			return err
		}
		items = items[n:]
	}
	return nil
}

// item returns an item of a list in the form that is asked for.
func (v *view) item(o object) ([]byte, error) {
	switch v.form.kind {
	case asTable:
		return v.printer.appendRow(nil, v.k, o, v.include, v.form, v.now)
	case asPartialList, asPartial:
		return v.k.appendPartial(nil, o, v.form.apiVersion()), nil
	}
	if v.whole {
		return v.k.appendWhole(nil, o), nil
	}
	return v.k.appendItem(nil, o), nil
}

// stream answers with all items, as they are read.
func (v *view) stream(ctx context.Context, w http.ResponseWriter, items []question.Item) error {
	head, tail, err := v.frame("", 0)
	if err != nil {
		return err
	}
	var pretty *bytes.Buffer
	if v.pretty && len(items) < 10_000 {
		pretty = &bytes.Buffer{}
	}
	begun, control := false, http.NewResponseController(w)
	write := func(text []byte) error {
		if pretty != nil {
			pretty.Write(text)
			return nil
		}
		if !begun {
			v.warn(w)
			w.Header().Set("Content-Type", jsonType)
			begun = true
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // there is none in a recorder
		_, err := w.Write(text)
		return gone(err)
	}
	first := true
	err = v.each(ctx, items, func(_ []question.Item, texts [][]byte) (bool, error) {
		v.sort(texts)
		for _, text := range texts {
			if text == nil {
				continue
			}
			before := []byte(",")
			if first {
				before, first = head, false
			}
			if err := write(slices.Concat(before, text)); err != nil {
				return false, err
			}
		}
		return ctx.Err() == nil, ctx.Err()
	})
	none := v.form.kind == asPartialList || v.form.kind == asTable && v.printer.plain
	if err == nil && first && none { // the server has no list there
		head, tail = bytes.TrimSuffix(head, []byte("[")), []byte("null}")
	}
	if err == nil && first {
		err = write(head)
	}
	if err == nil {
		err = write(tail)
	}
	switch {
	case err != nil && begun:
		v.s.broken(err)
	case err != nil:
		return err
	case pretty != nil:
		v.warn(w)
		writeJSON(w, http.StatusOK, indented(pretty.Bytes()))
	default:
		return write([]byte("\n"))
	}
	return nil
}

// sort sorts rows where the server does: those of FlowSchemas by their precedence.
func (v *view) sort(rows [][]byte) {
	if v.form.kind != asTable || v.k.Group != "flowcontrol.apiserver.k8s.io" || v.k.Resource.Resource != "flowschemas" {
		return
	}
	precedence := func(row []byte) int {
		n, _ := strconv.Atoi(string(rawjson.At(row, []byte("/cells/2")))) // none of what is not selected
		return n
	}
	slices.SortStableFunc(rows, func(a, b []byte) int { return cmp.Compare(precedence(a), precedence(b)) })
}

// page answers with the first items, up to the limit, and says where the next page begins.
func (v *view) page(ctx context.Context, w http.ResponseWriter, items []question.Item) error {
	var texts [][]byte
	next, seen, size := "", 0, 0
	err := v.each(ctx, items, func(of []question.Item, more [][]byte) (bool, error) {
		for i, text := range more {
			if len(texts) == v.limit || size > pageBytes {
				next = keyOf(&of[i])
				return false, nil
			}
			if seen++; text != nil {
				texts, size = append(texts, text), size+len(text)
			}
		}
		return true, ctx.Err()
	})
	if err != nil {
		return err
	}
	if next != "" {
		next = v.next(v.version, next)
	}
	remaining := len(items) - seen
	if v.selective() {
		remaining = 0 // which says nothing
	}
	head, tail, err := v.frame(next, remaining)
	if err != nil {
		return err
	}
	v.sort(texts)
	text := slices.Concat(head, bytes.Join(texts, []byte(",")), tail)
	if v.pretty {
		text = indented(text)
	}
	v.warn(w)
	writeJSON(w, http.StatusOK, text)
	return nil
}

// frame returns what stands before and after the items of a list.
func (v *view) frame(next string, remaining int) (head, tail []byte, err error) {
	custom := v.k.Custom && v.form == form{}
	metadata := []byte(`{`)
	member := func(name, value string) {
		if len(metadata) > 1 {
			metadata = append(metadata, ',')
		}
		metadata = fmt.Appendf(metadata, "%q:%s", name, value)
	}
	version := func() {
		if v.version != "" {
			member("resourceVersion", quoted(v.version))
		}
	}
	if !custom {
		version()
	}
	if next != "" || custom {
		member("continue", quoted(next))
	}
	if next != "" && remaining > 0 {
		member("remainingItemCount", strconv.Itoa(remaining))
	}
	if custom {
		version()
	}
	metadata = append(metadata, '}')
	apiVersion, name := v.k.apiVersion(), v.k.ListKind
	switch {
	case v.form.kind == asTable:
		head, err = v.printer.appendHead(nil, v.form, metadata, true)
		return head, []byte("]}"), err
	case v.form.kind == asPartialList:
		apiVersion, name = v.form.apiVersion(), asPartialList
	case custom:
		return fmt.Appendf(nil, `{"apiVersion":%s,"items":[`, quoted(apiVersion)),
			fmt.Appendf(nil, `],"kind":%s,"metadata":%s}`, quoted(name), metadata), nil
	}
	return fmt.Appendf(nil, `{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[`, quoted(name), quoted(apiVersion),
		metadata), []byte("]}"), nil
}
