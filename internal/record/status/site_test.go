package status

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served starts a server with two checks, the second of which fails with what
// failing returns.
func served(t *testing.T, failing func() error) (get func(path string) (int, string)) {
	t.Helper()
	checks := []Check{
		{Name: "output", Err: func() error { return nil }, Note: func() string { return "" }},
		{Name: "streams", Err: failing, Note: func() string { return "no progress: pods (failing for 2m0s: Retrying ServerError)" }},
	}
	all := func() []streams.Status {
		return []streams.Status{
			{Name: "pods", Status: watcher.Status{State: watcher.Watching, Position: "7", Synced: true, Lines: 9, Since: time.Unix(2, 0), Failing: time.Unix(3, 0), LastProgress: time.Unix(1, 0)}},
			{Name: "secrets", Status: watcher.Status{State: watcher.Retrying, Reason: "ServerError", Since: time.Unix(4, 0), Failing: time.Unix(3, 0)}},
			{Name: "widgets.example.com", Status: watcher.Status{State: watcher.Pending, Reason: "NotFound"}},
		}
	}
	site := NewSite(metrics.New("v1", "abc").Registry, checks, all, func() About { return About{Version: "v1", Started: time.Unix(5, 0)} })
	s, err := Listen("127.0.0.1:0", site)
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.InfoLevel)
	s.Serve(zap.New(core), "listening")
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if all := logged.All(); len(all) != 1 || all[0].Message != "listening" || all[0].ContextMap()["address"] != s.Addr().String() {
			t.Errorf("logged %v", all)
		}
	})
	return func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + s.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

func TestReadiness(t *testing.T) {
	var fault error
	get := served(t, func() error { return fault })
	for _, c := range []struct {
		path  string
		fault error
		code  int
		body  string
	}{
		{"/livez", errors.New("no"), 200, "ok\n"},
		{"/readyz", nil, 200, "ok\n"},
		{"/readyz?verbose", nil, 200, "[+]output ok\n[+]streams ok: no progress: pods (failing for 2m0s: Retrying ServerError)\nreadyz check passed\n"},
		{"/readyz", errors.New("not synced yet: pods"), 503, "[+]output ok\n[-]streams failed: not synced yet: pods\nreadyz check failed\n"},
	} {
		fault = c.fault
		if code, body := get(c.path); code != c.code || body != c.body {
			t.Errorf("%s with %v: %d %q, want %d %q", c.path, c.fault, code, body, c.code, c.body)
		}
	}
}

func TestStreams(t *testing.T) {
	_, body := served(t, func() error { return nil })("/streams")
	var got []map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("/streams: %s", body)
	}
	for i, want := range []map[string]any{
		{"stream": "pods", "state": "Watching", "resourceVersion": "7", "synced": true, "events": 9., "eventsPerSecond": nil, "since": "1970-01-01T00:00:02Z",
			"lastProgress": "1970-01-01T00:00:01Z", "failingSince": nil}, // it does watch
		{"stream": "secrets", "state": "Retrying", "reason": "ServerError", "since": "1970-01-01T00:00:04Z",
			"failingSince": "1970-01-01T00:00:03Z", "lastProgress": nil},
		{"stream": "widgets.example.com", "state": "Pending", "reason": "NotFound", "synced": false},
	} {
		for key, value := range want {
			if got[i][key] != value {
				t.Errorf("/streams: %s of %s is %v, want %v", key, want["stream"], got[i][key], value)
			}
		}
	}
	// Of one the age of its progress, of the other that of its state.
	for i, since := range []int64{1, 4} {
		age := time.Since(time.Unix(since, 0)).Seconds()
		if idle, _ := got[i]["idleSeconds"].(float64); idle < age-60 || idle > age+60 {
			t.Errorf("/streams: %v idle for %v s, want about %v s", got[i]["stream"], got[i]["idleSeconds"], age)
		}
	}
}

// What status shows is in one document, whose streams are those of /streams.
func TestStatus(t *testing.T) {
	get := served(t, func() error { return errors.New("not synced yet:\npods") })
	code, body := get("/status")
	var got Status
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK {
		t.Fatalf("/status: %d, %v", code, err)
	}
	if got.Version != "v1" || got.Ready || !got.Started.Equal(time.Unix(5, 0)) || len(got.Streams) != 3 || got.Streams[1].Reason != "ServerError" {
		t.Errorf("/status: %s", body)
	}
	if want := []CheckResult{{"output", true, ""}, {"streams", false, "not synced yet:; pods"}}; !slices.Equal(got.Checks, want) {
		t.Errorf("/status: %v, want %v", got.Checks, want)
	}
}

// A daemon that knows no /status, or says less there, gets a line of its own.
func TestFetchStatusOfAnotherVersion(t *testing.T) {
	for body, want := range map[string]string{
		"":                      "is not a kubejournal daemon, or one older than this command: 404 Not Found to /status",
		`{"version":"v0"}`:      "its /status lacks version, checks or streams",
		`[]`:                    "its /status lacks version, checks or streams",
		"<html>it works</html>": "its /status lacks version, checks or streams",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body == "" {
				http.NotFound(w, r)
			} else {
				io.WriteString(w, body)
			}
		}))
		_, err := FetchStatus(t.Context(), web.Listener.Addr().String())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), web.Listener.Addr().String()+" ") {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
		web.Close()
	}
}

func TestMetrics(t *testing.T) {
	_, body := served(t, func() error { return nil })("/metrics")
	for _, want := range []string{`kubejournal_build_info{commit="abc",goversion=`, "kubejournal_output_bytes_total 0", "go_goroutines "} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

func TestListenOnATakenAddress(t *testing.T) {
	s, err := Listen("127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Listen(s.Addr().String(), http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), s.Addr().String()) {
		t.Errorf("Listen = %v, want an error that names the address", err)
	}
}

// patient is a connection that has been told until when it may take an answer.
type patient struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	p.until = t
	return nil
}

// Who does not take what is answered, or keeps a connection for nothing, is let go.
func TestServerLetsGo(t *testing.T) {
	site := NewSite(metrics.New("", "").Registry, nil, counters{}.streams, func() About { return About{} })
	for _, path := range []string{"/", "/streams", "/status", "/metrics", "/readyz", "/livez"} {
		w := &patient{ResponseRecorder: httptest.NewRecorder()}
		site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if left := time.Until(w.until); left <= 0 || left > time.Minute {
			t.Errorf("%s is answered until %v", path, w.until)
		}
	}
	s, err := Listen("127.0.0.1:0", site)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.http.ReadHeaderTimeout <= 0 || s.http.IdleTimeout <= 0 {
		t.Errorf("waits %v for a request, and %v for another", s.http.ReadHeaderTimeout, s.http.IdleTimeout)
	}
}

// A site that comes to show something else, while it is asked, shows all of it.
func TestShow(t *testing.T) {
	starting := errors.New("recovering: read 3.1 GB of 10.0 GB")
	site := NewSite(metrics.New("", "").Registry, []Check{{Name: "startup", Err: func() error { return starting }}},
		func() []streams.Status { return nil }, func() About { return About{} })
	ask := func(path string) string {
		w := httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w.Body.String()
	}
	if got, want := ask("/readyz"), "[-]startup failed: recovering: read 3.1 GB of 10.0 GB\nreadyz check failed\n"; got != want {
		t.Errorf("/readyz: %q, want %q", got, want)
	}
	if got := ask("/streams"); got != "[]\n" {
		t.Errorf("/streams: %q", got)
	}
	defer site.Sample()()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for range 20 {
			ask("/")
			ask("/readyz")
		}
	}()
	site.Show(nil, func() []streams.Status { return []streams.Status{{Name: "pods"}} }, func() About { return About{Server: "https://there"} })
	<-asked
	if got := ask("/readyz"); got != "ok\n" {
		t.Errorf("/readyz: %q", got)
	}
	if got := ask("/streams"); !strings.Contains(got, `"pods"`) {
		t.Errorf("/streams: %q", got)
	}
	if got := ask("/"); !strings.Contains(got, "https://there") {
		t.Errorf("the page: %s", got)
	}
}
