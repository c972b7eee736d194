package watcher

import (
	"fmt"

	"go.uber.org/zap"

	"kubejournal/internal/kubeclient"
)

// maxWarned bounds how many unusable objects a stream remembers to have logged.
const maxWarned = 1024

// scan reads an object as the server sent it. One that no line can hold must not
// stall its stream: where it can be named, it takes the way of all others, as an
// event.Object that is Unusable. What cannot be named either is a bad frame.
func (s *Stream) scan(raw []byte) error {
	o := &s.object
	err := s.render.Scan(raw, o)
	if err == nil {
		return nil
	}
	if err = s.render.Identify(raw, o, err); err != nil {
		return fmt.Errorf("%w: %w", kubeclient.ErrBadFrame, err)
	}
	gvr := s.spec.Target.Resource
	s.m.Unusable.WithLabelValues(gvr.Group, gvr.Resource).Inc()
	if s.encoder.warned(string(o.Namespace) + "/" + string(o.Name)) {
		return nil
	}
	s.log.Warn("object is unusable, its line has no object", zap.String("namespace", string(o.Namespace)), zap.String("name", string(o.Name)),
		zap.String("uid", string(o.UID)), zap.String("resourceVersion", string(o.ResourceVersion)),
		zap.String("reason", o.Unusable.Reason), zap.Error(o.Unusable.Err))
	return nil
}

// warned reports whether an object was logged as unusable, and notes that it is now.
func (e *encoder) warned(object string) bool {
	if e.unusable[object] {
		return true
	}
	if e.unusable == nil || len(e.unusable) >= maxWarned {
		e.unusable = make(map[string]bool)
	}
	e.unusable[object] = true
	return false
}
