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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
)

// server answers lists from etcd as kube-apiserver does, with 500 to each page that has a bad object.
type server struct {
	keys, bad []string
	born      map[string]int // the version at which an object of keys comes; those without one are always there
	version   int
	uncounted bool                                  // no remainingItemCount
	fault     func(start string, limit, n int) int  // the status of the nth request, 0 for the real answer
	answer    func(start string, meta *v1.ListMeta) // changes what a list says about itself
	accept    []string                              // of each request
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.accept = append(s.accept, r.Header.Get("Accept"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	status, body := s.list(r.URL.Query().Get("continue"), limit)
	if status != http.StatusOK {
		body = v1.Status{TypeMeta: v1.TypeMeta{Kind: "Status"}, Status: v1.StatusFailure, Code: int32(status),
			Message: "too deep", Reason: map[int]v1.StatusReason{400: v1.StatusReasonBadRequest}[status]}
	}
	data, err := json.Marshal(body)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(data))),
	}, err
}

func (s *server) list(token string, limit int) (status int, list any) {
	from := struct {
		RV    int
		Start string
	}{-1, "\x00"}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if token != "" {
		err = errors.Join(err, json.Unmarshal(data, &from))
	}
	if err != nil || path.Clean("/"+from.Start) != "/"+from.Start {
		return http.StatusBadRequest, nil
	}
	if s.fault != nil {
		if status := s.fault(from.Start, limit, len(s.accept)); status != 0 {
			return status, nil
		}
	}
	if from.RV < 0 {
		from.RV = s.version
	}
	rest := slices.DeleteFunc(slices.Sorted(slices.Values(s.keys)), func(key string) bool {
		return key < from.Start || s.born[key] > from.RV
	})
	page := rest[:min(len(rest), limit)]
	meta := v1.ListMeta{ResourceVersion: strconv.Itoa(from.RV)}
	if left := int64(len(rest) - len(page)); left > 0 {
		meta.Continue = client.ContinueAt(meta.ResourceVersion, page[len(page)-1]+"\x00")
		if meta.RemainingItemCount = &left; s.uncounted {
			meta.RemainingItemCount = nil
		}
	}
	if s.answer != nil {
		s.answer(from.Start, &meta)
	}
	items := []v1.PartialObjectMetadata{}
	for _, key := range page {
		if slices.Contains(s.bad, key) {
			return http.StatusInternalServerError, nil
		}
		namespace, name := path.Split(key)
		items = append(items, v1.PartialObjectMetadata{ObjectMeta: v1.ObjectMeta{Namespace: path.Dir(namespace), Name: name}})
	}
	return http.StatusOK, v1.PartialObjectMetadataList{ListMeta: meta, Items: items}
}

// reader is a stream that reads lists of a server.
type reader struct {
	*server
	t          *testing.T
	client     *client.Client
	target     client.Target
	known      []object.Known
	unreadable detour.Unreadable
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// bubble runs a test with a reader, on a clock that does not wait for the limits of a client.
func bubble(t *testing.T, s *server, test func(*reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(&rest.Config{Host: "http://server", Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		s.version = 7
		test(&reader{server: s, t: t, client: c, target: client.Target{Resource: widgets}})
	})
}

// read reads a list in pages, and returns the keys of its objects. It stops where the detour says that a page has failed
// for another reason.
func (r *reader) read(ctx context.Context, limit int64) (seen []string, d *detour.Detour, err error) {
	d = detour.New(r.client, r.target, limit, func(each func(object.Known) error) error {
		for _, k := range r.known {
			if err := each(k); err != nil {
				return err
			}
		}
		return nil
	}, &r.unreadable)
	version := ""
	for o := (v1.ListOptions{Limit: limit}); ; {
		objects, meta, err := r.page(ctx, o)
		if err != nil {
			done, err := d.Fails(ctx, version, err)
			if err != nil || done {
				return seen, d, err
			}
			o = d.Options()
			continue
		}
		if v := d.Version(); v != "" && meta.ResourceVersion != v {
			return seen, d, fmt.Errorf("a page shows %s, not %s", meta.ResourceVersion, v)
		}
		version = cmp.Or(version, meta.ResourceVersion)
		if seen = append(seen, objects...); meta.Continue == "" {
			return seen, d, nil
		}
		namespace, name := r.split(seen[len(seen)-1])
		o = v1.ListOptions{Limit: limit, Continue: meta.Continue}
		if d.Passes(int64(len(objects)), namespace, name, meta.RemainingItems) {
			o = d.Options()
		}
	}
}

// split returns the namespace and the name of an object by its key in lists of the target.
func (r *reader) split(key string) (namespace, name string) {
	if before, after, ok := strings.Cut(key, "/"); ok {
		return before, after
	}
	return r.target.Namespace, key
}

func (r *reader) page(ctx context.Context, o v1.ListOptions) (keys []string, meta client.ListMeta, err error) {
	page, err := r.client.List(ctx, r.target, o)
	if err != nil {
		return nil, meta, err
	}
	defer page.Close()
	for {
		item, err := page.Next()
		if errors.Is(err, io.EOF) {
			return keys, page.Meta(), nil
		}
		var o v1.PartialObjectMetadata
		if err = errors.Join(err, json.Unmarshal(item, &o)); err != nil {
			return nil, meta, err
		}
		keys = append(keys, strings.TrimPrefix(path.Join(o.Namespace, o.Name), "./"))
	}
}

// readAround reads a list, and checks that each object is read once, in order, or hidden.
func (r *reader) readAround(limit int64) (hidden []string, d *detour.Detour) {
	r.t.Helper()
	seen, d, err := r.read(r.t.Context(), limit)
	if err != nil {
		r.t.Fatal(err)
	}
	var want []string
	for _, key := range slices.Sorted(slices.Values(r.keys)) {
		if d.Hides(r.split(key)) {
			hidden = append(hidden, key)
		} else {
			want = append(want, key)
		}
	}
	if !slices.Equal(seen, want) {
		r.t.Errorf("read %q, want %q", seen, want)
	}
	if d.Found() != (len(hidden) > 0) {
		r.t.Errorf("holes: %t, hidden: %q", d.Found(), hidden)
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
	for name, c := range map[string]struct {
		keys, bad    []string
		uncounted    bool
		namespace    string
		named        string
		first, again int // requests at most; 0 is what the docs say of one that is not the kind's first
	}{
		"none":            {keys: many, first: -1, again: -1},
		"first":           {keys: few, bad: []string{"default/a-1"}, named: "default/a-1 and perhaps others before it", first: 150, again: 80},
		"last":            {keys: few, bad: []string{"zoo/zz"}, named: "zoo/zz"},
		"between":         {keys: few, bad: []string{"default/mid-5"}, named: "default/mid-5"},
		"capitals":        {keys: few, bad: []string{"default/before:B_x"}, named: "default/before:B_x"},
		"only one":        {bad: []string{"a/b"}, named: "a/b and perhaps others before it", first: 150, again: 80},
		"in later pages":  {keys: many, bad: []string{"many/x0520-y"}, named: "many/x0520-y"},
		"end of a page":   {keys: many, bad: []string{"many/x0497"}, named: "many/x0497"},
		"one namespace":   {keys: []string{"a", "b", "c"}, bad: []string{"bad"}, namespace: "default", named: "bad"},
		"no namespace":    {keys: []string{"a", "b", "c"}, bad: []string{"bad"}, named: "bad"},
		"no such letter":  {keys: few, bad: []string{"default/m\u00e9"}, named: "from default/before to default/n"},
		"neighbours":      {keys: few, bad: []string{"other/b", "other/c", "other/d"}, named: "other/d and 2 before it"},
		"two places":      {keys: few, bad: []string{"default/c", "zoo/b"}, named: "default/c, zoo/b", first: 110},
		"without a count": {keys: many, bad: []string{"many/x0520-y"}, uncounted: true, named: "many/x0520-y and perhaps others before it", again: 80},
	} {
		t.Run(name, func(t *testing.T) {
			keys := slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.keys, c.bad))))
			bubble(t, &server{keys: keys, bad: c.bad, uncounted: c.uncounted}, func(r *reader) {
				r.target.Namespace = c.namespace
				for i, most := range []int{cmp.Or(c.first, 110), cmp.Or(c.again, 30)} {
					n := len(r.accept)
					hidden, d := r.readAround(500)
					if !slices.Equal(hidden, c.bad) {
						t.Errorf("hidden: %q", hidden)
					}
					pages := (len(keys) + 499) / 500
					if got := len(r.accept) - n; got > pages+max(0, most) || got > pages+d.Requests() {
						t.Errorf("list %d: %d requests for %d pages, of which it says %d are more", i, got, pages, d.Requests())
					}
					if d.Names() != c.named {
						t.Errorf("named %q", d.Names())
					}
					if !d.Found() {
						continue
					}
					if got, want := d.Finish().Error(), "the server cannot list "+c.named+": "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "too deep") {
						t.Errorf("says %q", got)
					}
				}
			})
		})
	}
}

// Objects that the last list has shown end a hole sooner than letters do, and one that was bad in it is asked for first.
func TestRemembered(t *testing.T) {
	bubble(t, &server{keys: []string{"a/b", "a/c", "a/d"}, bad: []string{"a/c"}}, func(r *reader) {
		_, d := r.readAround(500)
		unknown := d.Requests()
		d.Finish()
		_, d = r.readAround(500)
		remembered := d.Requests()
		r.unreadable.Forget()
		if _, d = r.readAround(500); d.Requests() != unknown {
			t.Errorf("%d requests at first, %d when what was found out is forgotten", unknown, d.Requests())
		}
		for i := range 200 { // more than are asked for, and none of them is there any more
			r.known = append(r.known, object.Known{Namespace: "b", Name: fmt.Sprint("gone-", i)})
		}
		r.known = append(r.known, object.Known{Namespace: "a", Name: "d"})
		if _, d = r.readAround(500); d.Requests() > unknown {
			t.Errorf("%d requests, %d without knowing objects", d.Requests(), unknown)
		}
		if remembered > 12 { // docs/operations.md: about ten
			t.Errorf("%d requests for what is known", remembered)
		}
	})
}

// What is created between two objects that cannot be read is found in one of the next lists, and one that can be read
// again at once.
func TestBetweenUnreadable(t *testing.T) {
	s := &server{keys: []string{"a/a", "p/bad", "z/bad", "zz/z"}, bad: []string{"p/bad", "z/bad"}}
	bubble(t, s, func(r *reader) {
		if _, d := r.readAround(500); d.Names() != "z/bad and 1 before it" {
			t.Errorf("named %q", d.Names())
		} else {
			d.Finish()
		}
		r.keys = append(r.keys, "q/new", "p/c")
		for i := 0; ; i++ {
			hidden, d := r.readAround(500)
			if d.Finish(); slices.Equal(hidden, r.bad) {
				break
			}
			if i == 30 { // half an hour
				t.Fatalf("still hidden: %q", hidden)
			}
		}
		r.bad = []string{"z/bad"}
		if hidden, _ := r.readAround(500); !slices.Equal(hidden, r.bad) {
			t.Errorf("hidden: %q", hidden)
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
		hidden, d := r.readAround(500)
		if slices.ContainsFunc(hidden, func(key string) bool { return !strings.HasPrefix(key, "many/") }) {
			t.Errorf("hidden: %q", hidden)
		}
		if !strings.HasPrefix(d.Names(), "many/x0005a and perhaps others before it, many/x0010a ") || !strings.HasSuffix(d.Names(), " more") {
			t.Errorf("named %q", d.Names())
		}
	})
	s = &server{}
	for _, namespace := range numbered("n", 300) {
		s.bad, s.keys = append(s.bad, namespace+"/bad"), append(s.keys, namespace+"/a", namespace+"/bad", namespace+"/c")
	}
	bubble(t, s, func(r *reader) {
		hidden, d := r.readAround(500)
		if got := d.Requests(); got > 700 || got < 500 { // 600, and what the last object takes
			t.Errorf("%d requests", got)
		}
		if len(hidden) == len(r.keys) || hidden[len(hidden)-1] != r.keys[len(r.keys)-1] {
			t.Errorf("%d hidden", len(hidden))
		}
	})
}

// A page that is too large is no object's fault: the list has smaller ones from there on.
func TestTooLarge(t *testing.T) {
	s := &server{keys: numbered("a/x", 400), fault: func(_ string, limit, _ int) int {
		if limit > 10 {
			return http.StatusRequestEntityTooLarge
		}
		return 0
	}}
	bubble(t, s, func(r *reader) {
		if _, d := r.readAround(100); d.Requests() > 30 || len(r.accept) > 110 {
			t.Errorf("%d requests, %d more than its pages", len(r.accept), d.Requests())
		}
	})
}

// An error that passes while an object is looked for is blamed on none.
func TestPassingFault(t *testing.T) {
	for n := range 60 {
		s := &server{keys: []string{"a/a", "a/b", "b/a", "b/b"}, fault: func(start string, _, i int) int {
			if start != client.LastKey && i <= n {
				return http.StatusInternalServerError
			}
			return 0
		}}
		bubble(t, s, func(r *reader) {
			if _, d := r.readAround(2); d.Found() && d.Names() != "from the beginning to the end" {
				t.Errorf("%d requests failed, named %q", n, d.Names())
			}
		})
	}
}

// The error of a page is returned where no object is to blame: the server does not answer others either, or waits, or
// says what else it is.
func TestNotToBlame(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 429, 500, 503} {
		s := &server{keys: []string{"a/a"}, fault: func(start string, _, _ int) int { return status }}
		bubble(t, s, func(r *reader) {
			_, d, err := r.read(r.t.Context(), 500)
			if client.StatusCode(err) != status || d.Found() || len(r.accept) > 2 {
				t.Errorf("%d: %v after %d requests", status, err, len(r.accept))
			}
		})
	}
	wait := apierrors.NewInternalError(errors.New("overload"))
	if wait.ErrStatus.Details.RetryAfterSeconds = 1; detour.MayBlameObject(wait) {
		t.Error("an object is blamed by a server that says when to ask again")
	}
	bubble(t, &server{keys: []string{"a/a"}}, func(r *reader) {
		ctx, cancel := context.WithCancel(r.t.Context())
		r.fault = func(string, int, int) int { cancel(); return http.StatusInternalServerError }
		if _, _, err := r.read(ctx, 500); err == nil || len(r.accept) > 1 {
			t.Errorf("canceled: %v after %d requests", err, len(r.accept))
		}
	})
	var none *detour.Detour
	if none.Found() || none.Hides("a", "a") {
		t.Error("a hole in a list without a detour")
	}
}

// All pages show the version of the first.
func TestOneVersion(t *testing.T) {
	s := &server{keys: []string{"a/a", "a/b", "a/bad", "b/a"}, bad: []string{"a/bad"}}
	bubble(t, s, func(r *reader) {
		r.fault = func(string, int, int) int {
			if len(r.accept) == 2 {
				r.version, r.born = 8, map[string]int{"b/new": 8}
				r.keys = append(r.keys, "b/new")
			}
			return 0
		}
		if seen, d, err := r.read(r.t.Context(), 2); err != nil || slices.Contains(seen, "b/new") || d.Version() != "7" {
			t.Errorf("%q at %s, %v", seen, d.Version(), err)
		}
		r.fault = nil
		r.answer = func(start string, meta *v1.ListMeta) {
			if start == client.LastKey {
				meta.ResourceVersion = "9"
			}
		}
		if _, _, err := r.read(r.t.Context(), 2); client.StatusCode(err) != http.StatusInternalServerError {
			t.Errorf("a server that continues at another version: %v", err)
		}
		for _, version := range []string{"", "v9"} {
			r.answer = func(_ string, meta *v1.ListMeta) { meta.ResourceVersion = version }
			if _, err := detour.Reaches(r.t.Context(), r.client, r.target, client.Latest); !errors.Is(err, client.ErrNoVersion) {
				t.Errorf("version %q: %v", version, err)
			}
		}
		if _, err := detour.Reaches(r.t.Context(), r.client, r.target, "v9"); !errors.Is(err, client.ErrNoVersion) {
			t.Error(err)
		}
	})
}

// A list fails for an object where it fails twice and the server answers another; it is asked for metadata alone.
func TestListFails(t *testing.T) {
	keys := numbered("a/x", 1200)
	internal := http.StatusInternalServerError
	for name, c := range map[string]struct {
		bad   []string
		fault func(start string, limit, n int) int
		fails bool
	}{
		"all is well":        {},
		"an object":          {bad: keys[1100:1101], fails: true},
		"once in every page": {fault: func(_ string, _, n int) int { return internal * (n % 2) }},
		"everything":         {fault: func(string, int, int) int { return internal }},
		"unavailable":        {fault: func(string, int, int) int { return http.StatusServiceUnavailable }},
	} {
		bubble(t, &server{keys: keys, bad: c.bad, fault: c.fault}, func(r *reader) {
			if err := detour.ListFails(r.t.Context(), r.client, r.target); (err != nil) != c.fails || err != nil && client.StatusCode(err) != internal {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.Contains(r.accept[0], "PartialObjectMetadata") {
				t.Errorf("asked for %s", r.accept[0])
			}
		})
	}
}
