package serve

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/ask/question"
)

// rows are the rows of tables that were answered. Of a moment that stays they are as they were, and what is asked for
// every few seconds needs no look at the lines.
type rows struct {
	mu   sync.Mutex
	of   map[row][]byte // guarded by mu
	size int            // guarded by mu
}

const maxRows = 32 << 20 // bytes that are kept

// row is what a row follows from.
type row struct {
	kind    *kind
	seq     uint64 // of the object's line
	now     int64  // for ages
	include metav1.IncludeObjectPolicy
	form    form
}

func (v *view) row(i *question.Item) row {
	return row{v.k, i.Last.Seq, v.now.UnixNano(), v.include, v.form}
}

// known sets the texts of items whose rows are kept, and returns the other items and their places; no places where rows
// are not kept.
func (v *view) known(items []question.Item, texts [][]byte) (unread []question.Item, of []int) {
	if v.form.kind != asTable || v.selective() || v.served.moves() {
		return items, nil
	}
	of = make([]int, 0, len(items))
	v.p.rows.mu.Lock()
	defer v.p.rows.mu.Unlock()
	for i := range items {
		if texts[i] = v.p.rows.of[v.row(&items[i])]; texts[i] == nil {
			unread, of = append(unread, items[i]), append(of, i)
		}
	}
	return unread, of
}

func (r *rows) keep(is row, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[is] != nil {
		return // another request has read it meanwhile
	}
	if r.size += len(text); r.size > maxRows {
		r.of, r.size = nil, len(text)
	}
	if r.of == nil {
		r.of = make(map[row][]byte)
	}
	r.of[is] = text
}
