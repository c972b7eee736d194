package answer

import (
	"context"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/restore"
	"kubejournal/internal/format/line"
)

// restorable notes a deletion whose object can be given back.
func (h *history) restorable(v *archive.Version) {
	if h.GiveBack == "" || !h.Deleted || h.among {
		return
	}
	if _, verdict := restore.Clean(v.Fields); verdict.Outcome == restore.Cleaned {
		h.back[v.Unquoted(line.FieldUID)] = true
	}
}

// giveBack names the command that makes again what is shown as deleted, where it has something to make.
func (h *history) giveBack(ctx context.Context) error {
	if len(h.back) == 0 {
		return nil
	}
	j, s := h.a.Journal, h.a.Selection
	items, _, err := j.Deleted(ctx, s, h.Since, h.Until)
	if err != nil {
		return err
	}
	replaced, err := j.Replaced(ctx, s, items)
	if err != nil {
		return err
	}
	for i := range items {
		if h.back[items[i].UID] && !replaced[i] {
			h.o.note("give it back: %s", h.GiveBack)
			break
		}
	}
	return nil
}
