package watcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/event"
)

// loadPrevious prepares the store of previous versions. A stream that compares nothing any more drops what it has: it
// would be stale when it is wanted again.
func (s *Stream) loadPrevious(ctx context.Context) error {
	previous := s.encoder.previous
	_, ok, err := s.store.KeptHeader(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if previous == nil {
		if !ok {
			return nil
		}
		return s.store.DropKept(s.spec.Name)
	}
	behind, stale, err := previous.Load()
	if err != nil {
		return err // of a write: it is retried
	}
	if s.behind = behind; !stale {
		return nil
	}
	b := s.producer.Batch()
	previous.PutHeader(&b.Changes, b.Number())
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	return s.rec.Flush(ctx)
}

const (
	// catchUpTime is how long catchUp may take before the watch goes on without: the server does not keep its history for
	// ever.
	catchUpTime = time.Minute
	// maxCatchUps is how often, of sessions that follow each other.
	maxCatchUps = 3
)

// catchUp reads all objects and stores those that are still as the reader was told of last, so that their next event can be
// compared. It writes no line and moves no position; what has changed since comes as an event, and is stored then. Where
// it fails, the stream continues without, and retries in a later session.
func (s *Stream) catchUp(ctx context.Context) error {
	s.setState(Listing, "")
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	s.encoder.reset()
	limited, cancel := context.WithTimeout(ctx, catchUpTime)
	err := s.storeAll(limited, ctx)
	cancel()
	s.catchUps++
	s.behind = err != nil && s.catchUps < maxCatchUps
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case errors.Is(err, errStore):
		return err // the checkpoint's fault, and the end of the daemon
	case classify(ctx, err).action == actionWait:
		return err // a watch would not be allowed either
	}
	s.log.Info("cannot read all objects to compare the next events with, going on without", zap.Error(err))
	// What it has not submitted is not stored.
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	s.encoder.reset()
	return nil
}

// storeAll is catchUp's reading. Its requests end with the first context, its writing with the second.
func (s *Stream) storeAll(request, ctx context.Context) error {
	b := s.producer.Batch()
	defer func() { b.Release() }()
	submit := func() error {
		full := b
		b = s.producer.Batch()
		return s.rec.Submit(ctx, full)
	}
	take := func(o *event.Object) error {
		k, ok, err := s.known(string(o.Namespace), string(o.Name))
		if err != nil || !ok || k.Doubtful || k.UID != string(o.UID) || k.ResourceVersion != string(o.ResourceVersion) {
			return err
		}
		if err := s.encoder.storeMissing(b, o, k.Withheld); err != nil || b.Bytes() < batchBytes {
			return err
		}
		return submit()
	}
	for token := ""; ; {
		meta, err := s.readPage(request, pageSize, token, nil, take)
		if err != nil {
			return err
		}
		if token = meta.Continue; token == "" {
			s.encoder.complete(b)
			return submit()
		}
	}
}
