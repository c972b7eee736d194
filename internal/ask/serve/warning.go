package serve

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/host/terminal"
)

// What clients are warned of at most: lines, and bytes of each.
const (
	maxWarnings = 10
	maxWarning  = 400
)

// doubt notes why what is answered may not be complete.
func (v *view) doubt(doubts []question.Doubt, gone int) {
	var notes bytes.Buffer
	o := &answer.Output{Notes: &notes}
	_ = o.Doubt(doubts) // that there is one is said
	v.p.mu.Lock()
	o.HeldBack(v.p.j.HeldBack(&v.of, argument.Moment{}, v.at.OfTime()))
	v.p.mu.Unlock()
	if gone > 0 {
		o.Note("%d objects were there whose last lines are in files that were removed", gone)
	}
	for text := range strings.Lines(notes.String()) {
		v.warnings = append(v.warnings, strings.TrimPrefix(text, "kubejournal: "))
	}
}

// warn writes what is in doubt where clients show it.
func (v *view) warn(w http.ResponseWriter) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, why := range slices.Sorted(maps.Keys(v.lacks)) {
		names := v.lacks[why]
		text := names[0]
		if len(names) > 1 {
			text = fmt.Sprintf("%s and %d more", text, len(names)-1)
		}
		v.warnings = append(v.warnings, v.k.Resource.Resource+" "+text+": "+why)
	}
	for i, text := range v.warnings {
		if i == maxWarnings {
			text = fmt.Sprintf("%d more doubts", len(v.warnings)-i)
		}
		if i > maxWarnings {
			break
		}
		warn(w, text)
	}
	v.warnings = nil
}

// warn adds a warning; "" is none.
func warn(w http.ResponseWriter, text string) {
	text = terminal.Line(strings.TrimSpace(text))
	text = strings.ToValidUTF8(text[:min(len(text), maxWarning)], "")
	if header, err := utilnet.NewWarningHeader(299, "-", text); err == nil && text != "" {
		w.Header().Add("Warning", header)
	}
}
