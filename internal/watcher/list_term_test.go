package watcher

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
)

// submitted notes the term of each batch.
type submitted struct {
	Recorder
	got []uint64
}

func (r *submitted) Submit(_ context.Context, b *recorder.Batch) error {
	r.got = append(r.got, b.Term)
	return nil
}

func (r *submitted) Flush(context.Context) error { return nil }

// Each batch of a list says in which term that was begun, and its SYNCED too.
func TestListSaysItsTerm(t *testing.T) {
	rec := new(submitted)
	spec := Spec{Name: "pods", Target: client.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}, Kind: "Pod"}
	s, err := NewStream(spec, nil, nil, rec, nil, metrics.New("", ""), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s.state = checkpoint.Stream{ResourceVersion: "5", Term: 7, Closing: new(line.Count)}
	r := &relist{s: s, state: *s.state.Clone(), batch: s.producer.Batch()}
	r.batch.Changes.Put(nil, []byte("a"), []byte("u"), []byte("5"))
	if err := r.submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.writeSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(rec.got) != 2 || rec.got[0] != 7 || rec.got[1] != 7 {
		t.Errorf("terms %d, want 7 of both batches", rec.got)
	}
}

// An adoption is given up after some errors that may pass, too.
func TestAdoptionFails(t *testing.T) {
	webhook := apierrors.NewInternalError(errors.New("conversion webhook for planetscale.com/v2, Kind=VitessShard failed"))
	a, n := adoption{}, 0
	for ; n < 2*maxAdoptFailures && !a.failed(webhook); n++ {
	}
	if n >= maxAdoptFailures {
		t.Errorf("an adoption is given up after %d failures", n)
	}
}
