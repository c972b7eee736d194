package watcher

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/takeover"
)

// slowWriter takes each batch after a while.
type slowWriter struct {
	Recorder
	takes time.Duration
	taken int
}

func (w *slowWriter) Submit(_ context.Context, b *recorder.Batch) error {
	time.Sleep(w.takes) //nolint:forbidigo // the time of a synctest bubble
	w.taken++
	b.Release()
	return nil
}

func (w *slowWriter) Flush(context.Context) error { return nil }

func (w *slowWriter) Replica() *takeover.Replica { return nil }

// answer is what every request is answered with, until its context ends.
type answer struct {
	body   io.ReadCloser
	server *io.PipeWriter
}

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !r.URL.Query().Has("watch") {
		return nil, errors.New("no lists")
	}
	context.AfterFunc(r.Context(), func() { _ = a.server.CloseWithError(context.Canceled) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: a.body, Request: r}, nil
}

// knowing is a Store that knows the object that is MODIFIED.
type knowing struct{ Store }

func (knowing) Get(_, namespace, name string) (object.Known, bool, error) {
	return object.Known{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "4"}, true, nil
}

// The time that the writing takes, on a full disk or into a pipe that nobody
// reads, is not the server's silence.
func TestSlowWritingIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &slowWriter{takes: 10 * time.Minute}
		spec := Spec{Name: "configmaps", Target: client.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, Kind: "ConfigMap"}
		s, err := NewStream(spec, nil, knowing{}, out, outage.New(zap.NewNop()), metrics.New("", ""), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		wire, server := io.Pipe()
		go func() {
			for _, frame := range []string{
				`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}`,
				`{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"6"}}}`,
				`{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"x","uid":"u","resourceVersion":"7"}}}`,
			} {
				_, _ = io.WriteString(server, frame+"\n") // each once the one before has been read
			}
		}()
		s.client, err = client.New(&rest.Config{Host: "http://server", Transport: answer{wire, server}})
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.client.Watch(t.Context(), spec.Target, metav1.ListOptions{}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		began := time.Now()
		if err := s.follow(t.Context(), w); !errors.Is(err, client.ErrSilent) {
			t.Errorf("follow = %v", err)
		}
		if took, want := time.Since(began), 3*out.takes+watchSilence; took != want || out.taken != 3 {
			t.Errorf("%d batches, silent after %v, want 3 and %v", out.taken, took, want)
		}
		if s.bookmarks {
			t.Error("a second silence would count as quickly")
		}
	})
}
