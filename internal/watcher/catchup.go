package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/failure"
)

// loadPrevious prepares the store of previous versions. A stream that compares nothing any more drops what it has: it
// would be stale when it is wanted again.
func (s *Stream) loadPrevious(ctx context.Context) error {
	_, ok, err := s.store.KeptHeader(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	if s.previous == nil {
		if !ok {
			return nil
		}
		return s.store.DropKept(s.spec.Name)
	}
	behind, stale, err := s.previous.Load()
	if err != nil {
		return err // of a write: it is retried
	}
	if s.behind = behind; !stale {
		return nil
	}
	b := s.producer.Batch()
	s.previous.PutHeader(&b.Changes, b.Number())
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	return s.rec.Flush(ctx)
}

const (
	catchUpTime = time.Minute // how long catchUp may take: the server does not keep its history for ever
	maxCatchUps = 3           // how many sessions try to
)

// catchUp reads all objects and stores those that are still as the reader was told of last, so that their next event
// can be compared. It writes no line and moves no position; what has changed since comes as an event, and is stored
// then. Where it fails, the stream continues without, and retries in a later session.
func (s *Stream) catchUp(ctx context.Context) error {
	s.setState(Listing, "")
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, catchUpTime)
	err := s.storeAll(limited, ctx)
	cancel()
	s.catchUps++
	s.behind = err != nil && s.catchUps < maxCatchUps
	if err == nil || ctx.Err() != nil || errors.Is(err, failure.ErrStore) || client.IsWaiting(err) {
		return err // with IsWaiting, a watch would not be allowed either
	}
	s.log.Info("cannot read all objects to compare the next events with, going on without", zap.Error(err))
	return nil
}

// storeAll is catchUp's reading. Its requests end with the first context, its writing with the second.
func (s *Stream) storeAll(request, ctx context.Context) error {
	b := s.producer.Batch()
	take := func(o *object.Object) error {
		k, ok, err := s.known(string(o.Namespace), string(o.Name))
		if err != nil || !ok || k.Doubtful || k.UID != string(o.UID) || k.ResourceVersion != string(o.ResourceVersion) {
			return err
		}
		if err := s.encoder.StoreMissing(b, o, k.Withheld); err != nil || b.Bytes() < batchBytes {
			return err
		}
		full := b
		b = s.producer.Batch()
		return s.rec.Submit(ctx, full)
	}
	for token := ""; ; {
		meta, err := s.readPage(request, v1.ListOptions{Limit: pageSize, Continue: token}, nil, func() {}, take)
		if err == nil && meta.Continue == "" {
			s.encoder.Complete(b)
		}
		if token = meta.Continue; token == "" {
			return cmp.Or(err, s.rec.Submit(ctx, b))
		}
	}
}
