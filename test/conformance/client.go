package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubejournal/test/program"
)

// patience bounds every request and every wait.
const patience = 30 * time.Second

type client struct {
	http      *http.Client
	anonymous *http.Client // with no identity
	stranger  *http.Client // with a token that nobody gave out
	base      string
	minor     int // of the server's release, as 36 of v1.36.3
}

func newClient(config *rest.Config) (*client, error) {
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	without := rest.AnonymousClientConfig(config)
	without.Transport = config.Transport
	anonymous, err := rest.HTTPClientFor(without)
	if err != nil {
		return nil, fmt.Errorf("make client without identity: %w", err)
	}
	wrong := rest.CopyConfig(without)
	wrong.BearerToken = "not-a-token"
	stranger, err := rest.HTTPClientFor(wrong)
	if err != nil {
		return nil, fmt.Errorf("make client with a wrong token: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read server address: %w", err)
	}
	return &client{http: admin, anonymous: anonymous, stranger: stranger,
		base: strings.TrimSuffix(base.String(), "/")}, nil
}

// answer is one whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// object decodes the body.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Fatalf("status %d, body is not JSON: %v\n%.300s", a.status, err, a.body)
	}
	return m
}

// want fails the test unless the answer has this status, and returns it.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d\n%.600s", a.status, status, a.body)
	}
	return a
}

// wantStatus checks that the answer is a Status object with code and reason,
// and returns it.
func (a answer) wantStatus(t *testing.T, code int, reason string) map[string]any {
	t.Helper()
	st := a.want(t, code).object(t)
	checkStatus(t, st, code, reason)
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	return st
}

func checkStatus(t *testing.T, st map[string]any, code int, reason string) {
	t.Helper()
	if st["kind"] != "Status" || st["apiVersion"] != "v1" || st["status"] != "Failure" || str(st, "reason") != reason ||
		st["code"] != float64(code) {
		t.Fatalf("want a Status with code %d and reason %s, got %v", code, reason, st)
	}
}

func (c *client) do(t *testing.T, method, path string, send any, header ...string) answer {
	t.Helper()
	return c.doAs(t, c.http, method, path, send, header...)
}

// doAs sends a request as one identity. header holds names and values in turn.
func (c *client) doAs(t *testing.T, as *http.Client, method, path string, send any, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var body io.Reader
	if send != nil {
		data, err := json.Marshal(send)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "conformance/1")
	if send != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := as.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: read body: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, data}
}

func (c *client) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil, header...)
}

// answers returns whether a request gets through at all.
func (c *client) answers(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil
}

// stream is a watch that has been opened.
type stream struct {
	t      *testing.T
	resp   *http.Response
	reader *bufio.Reader
	cancel context.CancelFunc
}

// watch opens a watch and closes it at the end of the test.
func (c *client) watch(t *testing.T, path string, header ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatalf("watch %s: %v", path, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("watch %s: status %d\n%.600s", path, resp.StatusCode, body)
	}
	return &stream{t, resp, bufio.NewReader(resp.Body), cancel}
}

// event is one watch event.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
	raw    string
}

func (e event) name() string    { return str(e.Object, "metadata", "name") }
func (e event) version() uint64 { return version(e.Object) }
func (e event) String() string {
	return fmt.Sprintf("%s %s@%s", e.Type, e.name(), str(e.Object, "metadata", "resourceVersion"))
}

// read returns the next event, or what ended the stream.
func (s *stream) read() (event, error) {
	s.t.Helper()
	line, err := s.reader.ReadString('\n')
	if err != nil {
		if line != "" {
			return event{}, fmt.Errorf("%w after a part of an event: %.100s", err, line)
		}
		return event{}, err
	}
	e := event{raw: line}
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		s.t.Fatalf("watch frame is not one line of JSON: %v\n%.300s", err, line)
	}
	return e, nil
}

// next returns the next event.
func (s *stream) next() event {
	s.t.Helper()
	e, err := s.read()
	if err != nil {
		s.t.Fatalf("read watch: %v", err)
	}
	return e
}

// want checks that the next event is of this type and of an object of this
// name.
func (s *stream) want(kind, name string) event {
	s.t.Helper()
	e := s.next()
	if e.Type != kind || e.name() != name {
		s.t.Fatalf("got %v, want %s %s\n%.300s", e, kind, name, e.raw)
	}
	return e
}

// rest returns all further events up to the end, which must be in good order.
func (s *stream) rest() []event {
	s.t.Helper()
	if testing.Short() { // most watches end after seconds
		s.t.Skip("not in make quick")
	}
	var all []event
	for {
		e, err := s.read()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return all
		}
		if err != nil {
			s.t.Fatalf("read watch to its end: %v", err)
		}
		all = append(all, e)
	}
}

// space is a namespace of one test's own.
type space struct {
	t    *testing.T
	c    *client
	name string
}

func newSpace(t *testing.T, c *client) space {
	t.Helper()
	ns := c.do(t, http.MethodPost, "/api/v1/namespaces", map[string]any{
		"metadata": map[string]any{"generateName": "conformance-"},
	}).want(t, http.StatusCreated).object(t)
	return space{t, c, str(ns, "metadata", "name")}
}

// path is that of a resource in the space, or of an object: "configmaps",
// "configmaps/a", "apps/v1/deployments".
func (s space) path(resource string) string {
	parts := strings.Split(resource, "/")
	if len(parts) >= 3 {
		return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", parts[0], parts[1], s.name, strings.Join(parts[2:], "/"))
	}
	return fmt.Sprintf("/api/v1/namespaces/%s/%s", s.name, resource)
}

// configMap is an object with one value and labels in pairs.
func configMap(name, value string, labels ...string) map[string]any {
	meta := map[string]any{"name": name}
	if len(labels) > 0 {
		set := map[string]any{}
		for i := 0; i+1 < len(labels); i += 2 {
			set[labels[i]] = labels[i+1]
		}
		meta["labels"] = set
	}
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
		"data": map[string]any{"key": value}}
}

func (s space) create(object map[string]any) map[string]any {
	s.t.Helper()
	return s.c.do(s.t, http.MethodPost, s.path("configmaps"), object).want(s.t, http.StatusCreated).object(s.t)
}

func (s space) update(object map[string]any) map[string]any {
	s.t.Helper()
	path := s.path("configmaps/" + str(object, "metadata", "name"))
	return s.c.do(s.t, http.MethodPut, path, object).want(s.t, http.StatusOK).object(s.t)
}

// patch changes the config map a.
func (s space) patch(patch map[string]any) map[string]any {
	s.t.Helper()
	return s.c.do(s.t, http.MethodPatch, s.path("configmaps/a"), patch, "Content-Type", "application/merge-patch+json").
		want(s.t, http.StatusOK).object(s.t)
}

func (s space) remove(name string) {
	s.t.Helper()
	s.c.do(s.t, http.MethodDelete, s.path("configmaps/"+name), nil).want(s.t, http.StatusOK)
}

// cached waits until the server's watch cache has come to the object's version.
// A watch from version 0 begins wherever the cache stands.
func (s space) cached(object map[string]any) {
	s.t.Helper()
	query := fmt.Sprintf("?resourceVersionMatch=NotOlderThan&resourceVersion=%d", version(object))
	s.c.get(s.t, s.path("configmaps")+query).want(s.t, http.StatusOK)
}

// now is the server's current version.
func (s space) now() uint64 {
	s.t.Helper()
	return version(s.c.get(s.t, s.path("configmaps")+"?limit=1").want(s.t, http.StatusOK).object(s.t))
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if err := program.Eventually(t.Context(), patience, what, func() error {
		if !condition() {
			return errors.New("it does not hold")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// at walks down an object.
func at(object map[string]any, path ...string) any {
	var v any = object
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func str(object map[string]any, path ...string) string {
	s, _ := at(object, path...).(string)
	return s
}

// version reads metadata.resourceVersion; 0 where there is none.
func version(object map[string]any) uint64 {
	v, _ := strconv.ParseUint(str(object, "metadata", "resourceVersion"), 10, 64)
	return v
}

// names lists the names of a list's items.
func names(list map[string]any) []string {
	out := []string{}
	items, _ := list["items"].([]any)
	for _, it := range items {
		out = append(out, str(it.(map[string]any), "metadata", "name"))
	}
	return out
}
