package changes

import (
	"bytes"
	"hash/maphash"

	"kubejournal/internal/rawjson"
)

// identities are the members that tell the elements of Kubernetes' lists from
// each other, as their definitions have them; the first that an element has
// counts.
var identities = [...]string{
	"name", "type", "key", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey", "manager",
}

// arrays is values for two arrays. It gives up once out is longer than end.
func (d *Differ) arrays(p, n int32, depth, end int) {
	base := len(d.pairs)
	d.align(p, n)
	at := 0 // in the array as the operations before have left it
	for k := base; k < len(d.pairs) && len(d.out) <= end; k++ {
		e := d.pairs[k]
		d.element(at, e, depth)
		if e.next >= 0 {
			at++
		}
	}
	d.pairs = d.pairs[:base]
}

// align pairs the elements of two arrays, in their order.
func (d *Differ) align(p, n int32) {
	d.ids = d.ids[:0]
	for i := p + 1; i < d.prev.Cells[p].Next; i = d.prev.Cells[i].Next {
		d.ids = append(d.ids, d.identity(&d.prev, i))
	}
	for j := n + 1; j < d.next.Cells[n].Next; j = d.next.Cells[j].Next {
		d.ids = append(d.ids, d.identity(&d.next, j))
	}
	count := d.prev.Cells[p].Count
	w := walk{d: d, i: p + 1, j: n + 1, was: d.ids[:count], is: d.ids[count:]}

	for len(w.was) > 0 && len(w.is) > 0 && w.was[0] == w.is[0] {
		w.both()
	}
	tail := 0
	for tail < len(w.was) && tail < len(w.is) && w.was[len(w.was)-1-tail] == w.is[len(w.is)-1-tail] {
		tail++
	}
	was, is := w.was[:len(w.was)-tail], w.is[:len(w.is)-tail]
	if size := len(was) * len(is); size > 0 && size <= alignedPairs {
		d.subsequences(was, is)
		x, y := 0, 0 // behind the last pair
		for k, l := 0, 0; k < len(was) && l < len(is); {
			switch {
			case was[k] == is[l]:
				w.apart(k-x, l-y)
				w.both()
				k, l = k+1, l+1
				x, y = k, l
			case d.common(len(is), k+1, l) >= d.common(len(is), k, l+1):
				k++
			default:
				l++
			}
		}
	}
	w.apart(len(w.was)-tail, len(w.is)-tail)
	for range tail {
		w.both()
	}
}

// walk goes through two arrays side by side. The next elements are the cells i
// and j; was and is are their identities and those of all behind them.
type walk struct {
	d       *Differ
	i, j    int32
	was, is []uint64
}

// both pairs the next elements.
func (w *walk) both() {
	a, b := w.was[0], w.is[0]
	w.d.pairs = append(w.d.pairs, pair{w.i, w.j, a != b && (a|b)&keyed != 0})
	w.i, w.was = w.d.prev.Cells[w.i].Next, w.was[1:]
	w.j, w.is = w.d.next.Cells[w.j].Next, w.is[1:]
}

// apart passes elements that have no equals: what can be is paired by position.
func (w *walk) apart(was, is int) {
	for ; was > 0 && is > 0; was, is = was-1, is-1 {
		w.both()
	}
	for ; was > 0; was-- {
		w.d.pairs = append(w.d.pairs, pair{prev: w.i, next: -1})
		w.i, w.was = w.d.prev.Cells[w.i].Next, w.was[1:]
	}
	for ; is > 0; is-- {
		w.d.pairs = append(w.d.pairs, pair{prev: -1, next: w.j})
		w.j, w.is = w.d.next.Cells[w.j].Next, w.is[1:]
	}
}

// keyed is the bit of an identity that is not just the element's text.
const keyed = 1

// identity stands for an element while two arrays are aligned. That two have
// the same by chance makes a longer list, not a wrong one.
func (d *Differ) identity(t *rawjson.Tape, i int32) uint64 {
	best, value := len(identities), int32(0)
	if t.Text(i)[0] == '{' {
		for m := i + 1; m < t.Cells[i].Next; m = t.Cells[m].Next {
			if c := t.Text(m)[0]; c == '{' || c == '[' {
				continue
			}
			key := t.DecodedKey(m, &d.a)
			for k := range min(best+1, len(identities)) { // of repeated keys the last
				if string(key) == identities[k] {
					best, value = k, m
					break
				}
			}
		}
	}
	if best == len(identities) {
		return maphash.Bytes(d.seed, t.Text(i)) &^ keyed
	}
	text := t.Text(value)
	if text[0] == '"' && bytes.IndexByte(text, '\\') >= 0 {
		d.a = rawjson.Unquote(d.a[:0], text)
		text = d.a
	}
	return (maphash.Bytes(d.seed, text) + uint64(best)<<1) | keyed
}

// subsequences works out, for each end of a and each of b, the length of the
// longest sequence that both have in common.
func (d *Differ) subsequences(a, b []uint64) {
	row := len(b) + 1
	d.lengths = append(d.lengths[:0], make([]uint16, (len(a)+1)*row)...)
	for k := len(a) - 1; k >= 0; k-- {
		for l := len(b) - 1; l >= 0; l-- {
			at := k*row + l
			if a[k] == b[l] {
				d.lengths[at] = d.lengths[at+row+1] + 1
			} else {
				d.lengths[at] = max(d.lengths[at+row], d.lengths[at+1])
			}
		}
	}
}

// common is what subsequences found for a[k:] and b[l:], b having n elements.
func (d *Differ) common(n, k, l int) uint16 { return d.lengths[k*(n+1)+l] }
