package tail

import (
	"bytes"
	"slices"
	"time"

	"kubejournal/internal/line"
)

// patience is how long a GAP line is held back while its stream's next line is waited for.
const patience = 2 * time.Second

// maxGaps bounds the GAP lines that are held back; there is one per stream at most.
const maxGaps = 1000

// heldGap is a GAP line that is held back until its stream's next line shows whether there was a difference.
type heldGap struct {
	line  line.Fields
	since time.Time // by this machine's clock
}

// appendLine shows a line. A GAP is held back: with a SYNCED that has no difference it becomes one row.
func (p *Printer) appendLine(l *line.Fields) {
	var closed *line.Fields
	if len(p.gaps) > 0 {
		if i := slices.IndexFunc(p.gaps, func(g heldGap) bool {
			return bytes.Equal(g.line.Text(line.Stream), l.Text(line.Stream))
		}); i >= 0 {
			if string(l.Text(line.Type)) == "SYNCED" && unchanged(l) != nil {
				closed = l
			}
			p.appendRow(&p.gaps[i].line, closed)
			p.gaps = slices.Delete(p.gaps, i, i+1)
		}
	}
	switch {
	case closed != nil:
	case string(l.Text(line.Type)) == "GAP" && !p.separate && len(p.gaps) < maxGaps:
		g := heldGap{since: time.Now()}
		if g.line.Parse(bytes.Clone(l.Raw)) == nil { // it did before
			p.gaps = append(p.gaps, g)
		}
	default:
		p.appendRow(l, nil)
	}
}

// releaseGaps shows the GAP lines that have been held back that long.
func (p *Printer) releaseGaps(long time.Duration) {
	for len(p.gaps) > 0 && time.Since(p.gaps[0].since) >= long {
		p.appendRow(&p.gaps[0].line, nil)
		p.gaps = slices.Delete(p.gaps, 0, 1)
	}
}
