package fake

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listOptions are the parameters of a list or a watch.
type listOptions struct {
	selection
	version       uint64 // 0 where none was given, or "0"
	versionText   string
	match         metav1.ResourceVersionMatch
	limit         int64
	token         string
	initialEvents *bool
	bookmarks     bool
	timeout       time.Duration
}

// parseListOptions reads and checks the parameters in the way and order of the
// real server, but for the version itself, which lists and watches treat
// differently.
func (s *Server) parseListOptions(req Request, res *resource) (listOptions, error) {
	q := req.Query
	o := listOptions{
		versionText: q.Get("resourceVersion"),
		token:       q.Get("continue"),
		bookmarks:   q.Get("allowWatchBookmarks") == "true" || q.Get("allowWatchBookmarks") == "1",
	}
	number := func(key string) (int64, error) {
		if q.Get(key) == "" {
			return 0, nil
		}
		n, err := strconv.ParseInt(q.Get(key), 10, 64)
		if err != nil {
			return 0, apierrors.NewBadRequest(err.Error())
		}
		return n, nil
	}
	var err error
	if o.limit, err = number("limit"); err != nil {
		return o, err
	}
	seconds, err := number("timeoutSeconds")
	if err != nil {
		return o, err
	}
	o.timeout = time.Duration(seconds) * time.Second
	if o.selection, err = res.parseSelection(req.Namespace, req.Name, q); err != nil {
		return o, err
	}
	s.mu.Lock()
	watchList, shards := s.watchList, s.shards
	s.mu.Unlock()
	if shards {
		shard, err := parseShard(q.Get("shardSelector"))
		if err != nil {
			return o, err
		}
		if req.Verb != "watch" || !res.Uncached { // what comes straight from etcd is not selected
			o.selection.shard = shard
		}
	}
	in := internalversion.ListOptions{
		Watch:                req.Verb == "watch",
		ResourceVersion:      o.versionText,
		ResourceVersionMatch: metav1.ResourceVersionMatch(q.Get("resourceVersionMatch")),
		Continue:             o.token,
	}
	if v := q.Get("sendInitialEvents"); v != "" {
		on := v == "true" || v == "1"
		in.SendInitialEvents = &on
	}
	internalversion.SetListOptionsDefaults(&in, watchList)
	if faults := validation.ValidateListOptions(&in, watchList); len(faults) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", faults)
	}
	o.match, o.initialEvents = in.ResourceVersionMatch, in.SendInitialEvents
	return o, nil
}

// parseVersion gives 0 for none and for "0".
func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", text, err)
	}
	return v, nil
}

func (s *Server) serveList(w *recorder, r *http.Request, req Request, res *resource, as form) error {
	o, err := s.parseListOptions(req, res)
	if err != nil {
		return err
	}
	if o.version, err = parseVersion(s.habitOf(res).version(o.versionText)); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if o.token != "" && o.version != 0 {
		return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if err := s.awaitVersion(r.Context(), o.version); err != nil {
		return err
	}
	answer, err := s.list(res, o, req.Version, as)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// awaitVersion waits for a while until the server is at version, and answers as
// the server does when it is not.
func (s *Server) awaitVersion(ctx context.Context, version uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.FreshWait)
	defer cancel()
	if s.Version() < version && s.Await(ctx, func() bool { return s.Version() >= version }) != nil {
		return tooLarge(version, s.Version())
	}
	return nil
}

// list renders one page.
func (s *Server) list(res *resource, o listOptions, version string, as form) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, after := s.version, ""
	switch {
	case o.token != "":
		start, rv, err := decodeToken(o.token)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		after = start
		if rv > 0 {
			at = uint64(rv)
		}
		if at < s.compacted {
			return nil, compactedPage(encodeToken(start, -1))
		}
	case o.match == metav1.ResourceVersionMatchExact, o.match == "" && o.limit > 0 && o.version > 0:
		at = o.version
		if at < s.compacted {
			return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
		}
	}
	limit := o.limit
	if s.opts.MaxPage > 0 && (limit == 0 || limit > int64(s.opts.MaxPage)) {
		limit = int64(s.opts.MaxPage)
	}
	if h := s.habits[res.groupResource()]; h != nil {
		if h.blind(res) && o.token == "" && o.match != metav1.ResourceVersionMatchExact &&
			!(o.labels.Empty() && o.fields.Empty()) {
			return nil, reinitializing()
		}
		return h.list(res, o, version, as, at, after, limit)
	}
	meta := listMeta{ResourceVersion: formatVersion(at)}
	if !o.shard.Empty() && as != metaOnly {
		meta.ShardInfo = &metav1.ShardInfo{Selector: o.shard.String()}
	}
	var items [][]byte
	last := ""
	all := res.store.at(at, prefixOf(o.namespace))
	for i, rec := range all {
		if rec.key < prefixOf(o.namespace)+after || !o.matches(rec) {
			continue
		}
		if limit > 0 && int64(len(items)) == limit {
			meta.Continue = encodeToken(last+"\x00", int64(at))
			if o.labels.Empty() && o.fields.Empty() {
				left := int64(len(all) - i) // of all shards
				meta.RemainingItemCount = &left
			}
			break
		}
		items = append(items, res.encode(rec, version, as.ofItem()))
		last = strings.TrimPrefix(rec.key, prefixOf(o.namespace))
	}
	return res.listOf(res.apiVersion(version), items, meta, as), nil
}

// continueToken has the content that the server gives its tokens. Start is the
// first key that is still to come, below the namespace that is listed; a
// version of -1 continues at the newest version, whatever the pages before were.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	Start           string `json:"start"`
}

func encodeToken(start string, version int64) string {
	return base64.RawURLEncoding.EncodeToString(marshal(continueToken{"meta.k8s.io/v1", version, start}))
}

func decodeToken(token string) (start string, version int64, err error) {
	errInvalid := errors.New("continue key is not valid")
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", errInvalid, err)
	}
	var t continueToken
	if err := json.Unmarshal(data, &t); err != nil {
		return "", 0, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if t.APIVersion != "meta.k8s.io/v1" || t.ResourceVersion == 0 || t.Start == "" ||
		path.Clean("/"+t.Start) != "/"+t.Start {
		return "", 0, errInvalid
	}
	return t.Start, t.ResourceVersion, nil
}
