package detour_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
)

// server answers lists from etcd as kube-apiserver does, with 500 to each page that has a bad object. Its objects are
// their keys.
type server struct {
	keys, bad []string
	version   int
	later     string // an object that is not there at version
	uncounted bool   // no remainingItemCount
	fault     func(start string, limit int) int
	atEnd     string   // in the place of the version, in a list that begins at LastKey
	accept    []string // of each request
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.accept = append(s.accept, r.Header.Get("Accept"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	status, body := s.list(r.URL.Query().Get("continue"), limit)
	if status != http.StatusOK {
		body = v1.Status{TypeMeta: v1.TypeMeta{Kind: "Status"}, Status: v1.StatusFailure, Code: int32(status), Message: "too deep"}
	}
	data, err := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(data)))}, err
}

func (s *server) list(token string, limit int) (status int, list any) {
	from := struct {
		RV    int
		Start string
	}{-1, client.FirstKey}
	if data, err := base64.RawURLEncoding.DecodeString(token); token != "" && (err != nil || json.Unmarshal(data, &from) != nil) ||
		path.Clean("/"+from.Start) != "/"+from.Start {
		return http.StatusBadRequest, nil
	}
	if s.fault != nil {
		if status := s.fault(from.Start, limit); status != 0 {
			return status, nil
		}
	}
	if from.RV < 0 {
		from.RV = s.version
	}
	rest := slices.DeleteFunc(slices.Clone(s.keys), func(key string) bool {
		return key < from.Start || key == s.later && from.RV == version
	})
	page := rest[:min(len(rest), limit)]
	meta := v1.ListMeta{ResourceVersion: strconv.Itoa(from.RV)}
	if left := int64(len(rest) - len(page)); left > 0 {
		meta.Continue = client.ContinueAt(meta.ResourceVersion, page[len(page)-1]+client.FirstKey)
		if !s.uncounted {
			meta.RemainingItemCount = &left
		}
	}
	if from.Start == client.LastKey && s.atEnd != "" {
		meta.ResourceVersion = s.atEnd
	}
	items := []map[string]string{}
	for _, key := range page {
		if items = append(items, map[string]string{"key": key}); slices.Contains(s.bad, key) {
			return http.StatusInternalServerError, nil
		}
	}
	return http.StatusOK, map[string]any{"metadata": meta, "items": items}
}

const version = 7 // of a server at first

// reader is a stream that reads lists of a server.
type reader struct {
	*server
	t          *testing.T
	client     *client.Client
	target     client.Target
	known      []object.Known
	unreadable detour.Unreadable
}

// bubble runs a test with a reader, on a clock that does not wait for the limits of a client.
func bubble(t *testing.T, s *server, test func(*reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(&rest.Config{Host: "http://server", Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		s.version = version
		slices.Sort(s.keys)
		test(&reader{server: s, t: t, client: c})
	})
}

// read reads a list in pages, and returns the keys of its objects.
func (r *reader) read(ctx context.Context, limit int64) (seen []string, d *detour.Detour, err error) {
	d = detour.New(r.client, r.target, limit, func(each func(object.Known) error) (err error) {
		for _, k := range r.known {
			err = errors.Join(err, each(k))
		}
		return err
	}, &r.unreadable)
	first := ""
	for o := (v1.ListOptions{Limit: limit}); ; {
		page, err := r.client.List(ctx, r.target, o)
		before := len(seen)
		for err == nil {
			var raw []byte
			if raw, err = page.Next(); err == nil {
				seen = append(seen, strings.Split(string(raw), `"`)[3])
			}
		}
		if !errors.Is(err, io.EOF) {
			if done, err := d.Fails(ctx, first, err); err != nil || done {
				return seen, d, err
			}
			o = d.Options()
			continue
		}
		page.Close()
		meta := page.Meta()
		if first = cmp.Or(first, meta.ResourceVersion); meta.ResourceVersion != first {
			return seen, d, fmt.Errorf("a page shows %s, not %s", meta.ResourceVersion, first)
		}
		if meta.Continue == "" {
			return seen, d, nil
		}
		namespace, name := r.split(seen[len(seen)-1])
		o.Continue = meta.Continue
		if d.Passes(int64(len(seen)-before), namespace, name, meta.RemainingItems) {
			o = d.Options()
		}
	}
}

// split returns the namespace and the name of an object by its key in lists of the target.
func (r *reader) split(key string) (namespace, name string) {
	namespace, name = path.Split(key)
	return cmp.Or(strings.TrimSuffix(namespace, "/"), r.target.Namespace), name
}

// around reads a list, and checks that each object is read once, in order, or hidden.
func (r *reader) around(limit int64) (hidden []string, d *detour.Detour) {
	r.t.Helper()
	seen, d, err := r.read(r.t.Context(), limit)
	hidden = slices.DeleteFunc(slices.Clone(r.keys), func(key string) bool { return !d.Hides(r.split(key)) })
	all := slices.Sorted(slices.Values(slices.Concat(seen, hidden)))
	if err != nil || !slices.IsSorted(seen) || !slices.Equal(all, r.keys) || d.Found() != (len(hidden) > 0) {
		r.t.Errorf("read %q, hidden %q, holes %t: %v", seen, hidden, d.Found(), err)
	}
	if d.Found() {
		d.Finish()
	}
	return hidden, d
}

// numbered returns n keys that begin with a prefix.
func numbered(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s%04d", prefix, i))
	}
	return keys
}

// A list has all but the objects that cannot be read, in so many requests more as docs/reliability.md says.
func TestReadAround(t *testing.T) {
	few := []string{"default/before", "default/z", "other/a", "zoo/a"}
	many := append(numbered("many/x", 1030), few...)
	for _, c := range []struct {
		keys, bad    []string
		uncounted    bool
		namespace    string
		named        string
		first, again int // requests at most, where the docs say another number than of all
	}{
		{keys: many, first: -1, again: -1},
		{keys: few, bad: []string{"default/a-1"}, named: "default/a-1 and perhaps others before it", first: 150, again: 80},
		{bad: []string{"a/b"}, named: "a/b and perhaps others before it", first: 150, again: 80},
		{keys: few, bad: []string{"zoo/zz"}, named: "zoo/zz"},
		{keys: few, bad: []string{"default/mid-5"}, named: "default/mid-5"},
		{keys: few, bad: []string{"default/before:B_x"}, named: "default/before:B_x"},
		{keys: many, bad: []string{"many/x0520-y"}, named: "many/x0520-y"},
		{keys: []string{"a", "c"}, bad: []string{"bad"}, namespace: "default", named: "bad"},
		{keys: []string{"a", "c"}, bad: []string{"bad"}, named: "bad"},
		{keys: few, bad: []string{"default/m\u00e9"}, named: "from default/before to default/n"},
		{keys: few, bad: []string{"other/b", "other/c", "other/d"}, named: "other/d and 2 before it"},
		{keys: few, bad: []string{"default/c", "zoo/b"}, named: "default/c, zoo/b"},
		{keys: many, bad: []string{"many/x0520-y"}, uncounted: true, named: "many/x0520-y and perhaps others before it", again: 80},
	} {
		bubble(t, &server{keys: slices.Concat(c.keys, c.bad), bad: c.bad, uncounted: c.uncounted}, func(r *reader) {
			r.target.Namespace = c.namespace
			for _, most := range []int{cmp.Or(c.first, 110), cmp.Or(c.again, 30)} {
				n, pages := len(r.accept), (len(r.keys)+499)/500
				hidden, d := r.around(500)
				if got := len(r.accept) - n - pages; got > max(0, most) || got > d.Requests() {
					t.Errorf("%q: %d requests more than pages, of which it says %d", c.named, got, d.Requests())
				}
				if !slices.Equal(hidden, c.bad) || d.Names() != c.named {
					t.Errorf("%q: hidden: %q, named %q", c.named, hidden, d.Names())
				}
			}
		})
	}
}

// What the last list has found out makes the next one short, unless it is forgotten; objects that are gone cost little.
func TestRemembered(t *testing.T) {
	bubble(t, &server{keys: []string{"a/b", "a/c", "a/d"}, bad: []string{"a/c"}}, func(r *reader) {
		requests := func() int { _, d := r.around(500); return d.Requests() }
		first, again := requests(), requests()
		if r.unreadable.Forget(); again > 12 || requests() != first { // docs/operations.md: about ten
			t.Errorf("%d requests at first, then %d", first, again)
		}
		for i := range 300 { // backwards: they come in no order
			r.known = append(r.known, object.Known{Namespace: "b", Name: fmt.Sprint("gone-", 999-i)})
		}
		r.known = append(r.known, object.Known{Namespace: "a", Name: "a"}, object.Known{Namespace: "a", Name: "d"})
		if r.unreadable.Forget(); requests() > first {
			t.Error("more requests with known objects")
		}
	})
}

// What is created between two objects that cannot be read is found in half an hour, and one that can be read again at once.
func TestBetweenUnreadable(t *testing.T) {
	bubble(t, &server{keys: []string{"a/a", "p/bad", "z/bad", "zz/z"}, bad: []string{"p/bad", "z/bad"}}, func(r *reader) {
		_, d := r.around(500)
		if got := d.Finish().Error(); got != "the server cannot list z/bad and 1 before it: too deep" {
			t.Errorf("says %q", got)
		}
		r.keys = slices.Sorted(slices.Values(append(r.keys, "q/new", "p/c")))
		hidden := r.keys
		for range 30 {
			hidden, _ = r.around(500)
		}
		if r.bad = r.bad[1:]; !slices.Equal(hidden, []string{"p/bad", "z/bad"}) {
			t.Errorf("still hidden: %q", hidden)
		}
		if hidden, _ := r.around(500); !slices.Equal(hidden, r.bad) {
			t.Errorf("still hidden: %q", hidden)
		}
	})
}

// Where more objects are found than can be named, the rest of their namespace is left out, and no other one.
func TestManyUnreadable(t *testing.T) {
	s := &server{keys: append(numbered("many/x", 30), "other/a", "zoo/a"), uncounted: true}
	for i := range 5 {
		s.bad = append(s.bad, fmt.Sprintf("many/x%04da", 5+5*i))
	}
	s.keys = append(s.keys, s.bad...)
	bubble(t, s, func(r *reader) {
		hidden, d := r.around(500)
		if !strings.HasPrefix(hidden[len(hidden)-1], "many/") || !strings.HasSuffix(d.Names(), " and 2 more") {
			t.Errorf("hidden: %q, named %q", hidden, d.Names())
		}
	})
	s = &server{}
	for _, namespace := range numbered("n", 300) {
		s.bad, s.keys = append(s.bad, namespace+"/bad"), append(s.keys, namespace+"/a", namespace+"/bad", namespace+"/c")
	}
	bubble(t, s, func(r *reader) {
		hidden, d := r.around(500) // 600 requests more, and what the last object takes
		if d.Requests() > 700 || d.Requests() < 500 || len(hidden) == len(s.keys) || !d.Hides("z", "z") {
			t.Errorf("%d requests, %d hidden", d.Requests(), len(hidden))
		}
	})
}

// A page that is too large is no object's fault: the list has smaller ones from there on.
func TestTooLarge(t *testing.T) {
	bubble(t, &server{keys: numbered("a/x", 400)}, func(r *reader) {
		r.fault = func(_ string, limit int) int { return http.StatusRequestEntityTooLarge * min(1, limit/11) }
		if hidden, d := r.around(100); len(hidden) > 0 || d.Requests() > 30 || len(r.accept) > 110 {
			t.Errorf("%d requests, %d more than its pages, hidden %q", len(r.accept), d.Requests(), hidden)
		}
	})
}

// An error that passes while an object is looked for is blamed on none.
func TestPassingFault(t *testing.T) {
	for n := range 40 {
		bubble(t, &server{keys: []string{"a/a", "a/b", "b/a", "b/b"}}, func(r *reader) {
			r.fault = func(start string, _ int) int {
				if start != client.LastKey && len(r.accept) <= n {
					return http.StatusInternalServerError
				}
				return 0
			}
			if _, d := r.around(2); d.Found() && d.Names() != "from the beginning to the end" {
				t.Errorf("%d requests failed, named %q", n, d.Names())
			}
		})
	}
}

// The error of a page is returned where no object is to blame: the server answers no others, or says something else.
func TestNotToBlame(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 413, 429, 500, 503} {
		bubble(t, &server{}, func(r *reader) {
			r.fault = func(string, int) int { return status }
			_, d, err := r.read(r.t.Context(), 500)
			if client.StatusCode(err) != status || d.Found() || detour.MayBlameObject(err) != (status == 413 || status == 500) {
				t.Errorf("%d: %v", status, err)
			}
			if n, err := len(r.accept), detour.ListFails(r.t.Context(), r.client, r.target); n > 2 || err != nil {
				t.Errorf("%d: %d requests, then an object is to blame: %v", status, n, err)
			}
		})
	}
	wait := apierrors.NewInternalError(errors.New("overload"))
	wait.ErrStatus.Details.RetryAfterSeconds = 1
	if none := (*detour.Detour)(nil); detour.MayBlameObject(wait) || none.Found() || none.Hides("a", "a") {
		t.Error("a server that says when to ask again, or a list without a detour, has an object to blame")
	}
}

// All pages show the version of the first.
func TestOneVersion(t *testing.T) {
	bubble(t, &server{keys: []string{"a/a", "a/b", "a/bad", "b/a", "b/new"}, bad: []string{"a/bad"}, later: "b/new"}, func(r *reader) {
		r.fault = func(string, int) int { r.server.version = version + min(1, len(r.accept)/2); return 0 } // after the first page
		if seen, d, err := r.read(r.t.Context(), 2); err != nil || slices.Contains(seen, "b/new") || d.Version() != "7" {
			t.Errorf("%q at %s, %v", seen, d.Version(), err)
		}
		for _, r.atEnd = range []string{"9", "v7"} {
			if _, _, err := r.read(r.t.Context(), 2); client.StatusCode(err) != http.StatusInternalServerError {
				t.Errorf("a server that continues at the version %s: %v", r.atEnd, err)
			}
		}
		if _, err := detour.Reaches(r.t.Context(), r.client, r.target, client.Latest); err != client.ErrNoVersion {
			t.Error(err)
		}
	})
}

// A list fails for an object where it fails twice in a row; it is asked for metadata alone.
func TestListFails(t *testing.T) {
	keys := numbered("a/x", 1200)
	for _, bad := range [][]string{nil, keys[1100:1101]} {
		for every := range 2 {
			bubble(t, &server{keys: keys, bad: bad}, func(r *reader) {
				r.fault = func(string, int) int { return every * http.StatusInternalServerError * (len(r.accept) % 2) }
				err := detour.ListFails(r.t.Context(), r.client, r.target)
				if fails := bad != nil && every == 0; (err != nil) != fails || !strings.Contains(r.accept[0], "PartialObjectMetadata") {
					t.Errorf("with the bad objects %q and a fault of each %d: %v", bad, every, err)
				}
			})
		}
	}
}
