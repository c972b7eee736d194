package serve

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/selector"
)

// options are what a request for objects asks for.
type options struct {
	served *served
	at     argument.Moment // of it, at the time of the request
	labels labels.Selector
	fields fields.Selector
	name   string // the one object of that name; empty for all

	limit   int
	start   string // namespace/name of the first object of a page, and all after it
	version string // that the pages before had

	resourceVersion string
	match           metav1.ResourceVersionMatch
	watch           bool
	initial         *bool // sendInitialEvents
	bookmarks       bool
	timeout         time.Duration

	form    form
	pretty  bool
	include metav1.IncludeObjectPolicy
}

// parseOptions reads the parameters of a request for objects of a kind.
func (s *Server) parseOptions(r *http.Request, k *kind, t target) (*options, error) {
	query, now := r.URL.Query(), s.served.Load()
	o := &options{
		served: now, at: now.moment(), name: t.name, pretty: isPretty(r), resourceVersion: query.Get("resourceVersion"),
		match: metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")), watch: t.watch || truth(query, "watch"),
		bookmarks: truth(query, "allowWatchBookmarks"),
	}
	var err error
	if o.form, err = negotiate(r.Header.Get("Accept"), ofObjects); err != nil {
		return nil, err
	}
	if o.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return nil, badRequest("%v", err)
	}
	if o.fields, err = k.parseFields(query.Get("fieldSelector")); err != nil {
		return nil, err
	}
	if name, ok := o.fields.RequiresExactMatch(metadataName); ok {
		if o.name != "" && o.name != name {
			return nil, badRequest("fieldSelector metadata.name doesn't match requested name")
		}
		o.name = name
	}
	if o.limit, err = number(query, "limit"); err != nil {
		return nil, err
	}
	seconds, err := number(query, "timeoutSeconds")
	if err != nil {
		return nil, err
	}
	o.timeout = min(time.Duration(seconds)*time.Second, maxWatch)
	if _, there := query["sendInitialEvents"]; there {
		o.initial = new(truth(query, "sendInitialEvents"))
	}
	if o.include = metav1.IncludeObjectPolicy(query.Get("includeObject")); o.form.kind == asTable {
		switch o.include {
		case "", metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		default:
			return nil, badRequest("Unable to convert to Table as requested: includeObject: Invalid value: %q: "+
				"must be 'Metadata', 'Object', 'None', or empty", o.include)
		}
	}
	return o, errors.Join(o.check(query.Get("continue")), o.resume(query.Get("continue")))
}

func number(query url.Values, name string) (int, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, badRequest("strconv.ParseInt: parsing %q: invalid syntax", text)
	}
	return int(max(n, 0)), nil
}

// check returns an error for parameters that do not go together, as a Kubernetes API server has it.
func (o *options) check(next string) error {
	var all field.ErrorList
	match := field.NewPath("resourceVersionMatch")
	forbid := func(path *field.Path, text string) { all = append(all, field.Forbidden(path, text)) }
	known := o.match == metav1.ResourceVersionMatchNotOlderThan ||
		o.match == metav1.ResourceVersionMatchExact && !o.watch
	if o.watch && o.initial != nil && o.match != metav1.ResourceVersionMatchNotOlderThan {
		forbid(match, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	}
	if o.match != "" {
		switch {
		case o.watch && o.initial == nil:
			forbid(match, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
		case !o.watch && o.resourceVersion == "":
			forbid(match, "resourceVersionMatch is forbidden unless resourceVersion is provided")
		}
		if next != "" {
			forbid(match, "resourceVersionMatch is forbidden when continue is provided")
		}
		if !known {
			supported := []string{
				string(metav1.ResourceVersionMatchExact), string(metav1.ResourceVersionMatchNotOlderThan), "",
			}
			if o.watch {
				supported = supported[1:2]
			}
			all = append(all, field.NotSupported(match, o.match, supported))
		}
		if o.match == metav1.ResourceVersionMatchExact && o.resourceVersion == "0" {
			forbid(match, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
		}
	}
	if o.initial != nil && !o.watch {
		forbid(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list")
	}
	if len(all) == 0 {
		return nil
	}
	of := schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}
	return &failure{apierrors.NewInvalid(of, "", all).Status()}
}

// selective reports whether what is selected depends on more of an object than its name and namespace.
func (o *options) selective() bool {
	return !o.labels.Empty() || !o.fields.Empty() && len(o.fields.Requirements()) > o.named()
}

// named returns how many requirements need no look at the object.
func (o *options) named() (n int) {
	for _, r := range o.fields.Requirements() {
		if r.Field == metadataName || r.Field == metadataNamespace {
			n++
		}
	}
	return n
}

func (o *options) selector(k *kind) *selector.Selector {
	return selector.Of(o.labels, o.fields, k.field)
}

// token is where a list goes on. It names the moment, so that all pages are of one.
type token struct {
	Kind    string `json:"v"`
	At      string `json:"at"`
	Version string `json:"rv"`
	Start   string `json:"start"`
}

const tokenKind = "kubejournal/v1"

func (o *options) next(version, start string) string {
	text, err := json.Marshal(token{tokenKind, o.at.Text(), version, start})
	if err != nil { // never, of strings
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// resume goes on where a page has ended.
func (o *options) resume(next string) error {
	if next == "" {
		return nil
	}
	var t token
	text, err := base64.RawURLEncoding.DecodeString(next)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	var at argument.Moment
	if err == nil && t.Kind == tokenKind && t.Start != "" {
		at, err = argument.ParseMoment(t.At, time.Now())
	}
	now := o.at.Time
	later := !at.Time.IsZero() && !now.IsZero() && at.Time.After(now)
	if err == nil && later { // it was moved
		return expired("The provided continue parameter is of a moment that is not served any more.")
	}
	if err != nil || at.IsZero() || strings.ContainsRune(t.At, ' ') {
		return badRequest("continue key is not valid")
	}
	if o.resourceVersion != "" && o.resourceVersion != "0" {
		return badRequest("specifying resource version is not allowed when using continue")
	}
	o.at, o.version, o.start = at, t.Version, t.Start
	return nil
}
