package recorder

import (
	"testing"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
)

// Coverage learns why a stream has lost its position also where that, the GAP and the whole list are in one commit: a fast
// list after a restart of the API server. Otherwise the stream's interval would end as that of a killed daemon.
func TestProgressOfAGapInOneCommit(t *testing.T) {
	state := checkpoint.Stream{ResourceVersion: "5", Coverage: checkpoint.Coverage{Since: 1, Confirmed: 2}}
	var c checkpoint.Changes
	state.Lose(line.Expired)
	state.Apply(&checkpoint.Transition{Type: line.Gap, Reason: line.Expired, ResourceVersion: []byte("9")}, &c)
	state.Complete("9", new(line.Count))
	p := newPending()
	c.State = &state
	p.Add("pods", &c)
	for stream, is := range p.progress {
		if want := (coverage.Progress{Lost: "Expired"}); stream != "pods" || is != want {
			t.Errorf("%s: %+v, want %+v", stream, is, want)
		}
	}
	if state.Apply(&checkpoint.Transition{Type: line.Synced, ResourceVersion: []byte("9"), Time: 3}, &c); state.Coverage.Lost != "" {
		t.Errorf("behind SYNCED: %+v", state.Coverage)
	}
}
