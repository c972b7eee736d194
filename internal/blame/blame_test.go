package blame

import (
	"testing"

	"kubejournal/internal/line"
)

func add(t testing.TB, h *History, raw string) {
	t.Helper()
	var l line.Fields
	if err := l.Parse([]byte(raw)); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := h.Add(&l); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}
