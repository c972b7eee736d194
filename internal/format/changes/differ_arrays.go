package changes

import (
	"bytes"
	"hash/maphash"
	"strconv"

	"kubejournal/internal/format/rawjson"
)

// identities are the members that distinguish the elements of Kubernetes' lists, as their definitions have
// them; the first that an element has counts.
var identities = [...]string{
	"name", "type", "key", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey", "manager",
}

// element is one of an array.
type element struct {
	cell     int32
	identity uint64
}

// arrays is values for two arrays. It gives up once out is longer than end.
func (d *Differ) arrays(p, n int32, depth, end int) {
	base := len(d.pairs)
	d.align(p, n)
	at := 0 // in the array as the operations before have left it
	for k := base; k < len(d.pairs) && len(d.out) <= end; k++ {
		e := d.pairs[k]
		d.a = strconv.AppendInt(d.a[:0], int64(at), 10)
		d.change(d.a, e, depth)
		if e.next >= 0 {
			at++
		}
	}
	d.pairs = d.pairs[:base]
}

// align pairs the elements of two arrays, in their order.
func (d *Differ) align(p, n int32) {
	d.elements = d.elements[:0]
	for i := p + 1; i < d.prev.Cells[p].Next; i = d.prev.Cells[i].Next {
		d.elements = append(d.elements, element{i, d.identity(&d.prev, i)})
	}
	count := len(d.elements)
	for j := n + 1; j < d.next.Cells[n].Next; j = d.next.Cells[j].Next {
		d.elements = append(d.elements, element{j, d.identity(&d.next, j)})
	}
	was, is := d.elements[:count], d.elements[count:]
	least := min(len(was), len(is))
	head, tail := 0, 0
	for head < least && was[head].identity == is[head].identity {
		head++
	}
	for tail < least-head && was[len(was)-1-tail].identity == is[len(is)-1-tail].identity {
		tail++
	}
	d.pair(was[:head], is[:head])
	d.alignDifferent(was[head:len(was)-tail], is[head:len(is)-tail])
	d.pair(was[len(was)-tail:], is[len(is)-tail:])
}

// alignDifferent pairs elements by their longest common subsequence, and what lies between two of these by position.
func (d *Differ) alignDifferent(was, is []element) {
	x, y := 0, 0 // behind the last pair
	if size := len(was) * len(is); size > 0 && size <= alignedPairs {
		d.subsequences(was, is)
		for k, l := 0, 0; k < len(was) && l < len(is); {
			switch {
			case was[k].identity == is[l].identity:
				d.pair(was[x:k], is[y:l])
				d.pair(was[k:k+1], is[l:l+1])
				k, l = k+1, l+1
				x, y = k, l
			case d.common(len(is), k+1, l) >= d.common(len(is), k, l+1):
				k++
			default:
				l++
			}
		}
	}
	d.pair(was[x:], is[y:])
}

// pair pairs elements by position; those that are left are removed or added.
func (d *Differ) pair(was, is []element) {
	for k := range max(len(was), len(is)) {
		p := pair{prev: -1, next: -1}
		if k < len(was) {
			p.prev = was[k].cell
		}
		if k < len(is) {
			p.next = is[k].cell
		}
		if k < len(was) && k < len(is) {
			a, b := was[k].identity, is[k].identity
			p.whole = a != b && (a|b)&keyed != 0
		}
		d.pairs = append(d.pairs, p)
	}
}

// keyed is the bit of an identity that is not just the element's text.
const keyed = 1

// identity represents an element while two arrays are aligned. That two have the same by chance makes a longer list,
// not a wrong one.
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
		return maphash.Bytes(seed, t.Text(i)) &^ keyed
	}
	text := t.Text(value)
	if text[0] == '"' && bytes.IndexByte(text, '\\') >= 0 {
		d.a = rawjson.Unquote(d.a[:0], text)
		text = d.a
	}
	return (maphash.Bytes(seed, text) + uint64(best)<<1) | keyed
}

// subsequences works out, for each end of a and each of b, the length of the longest sequence that both have in
// common.
func (d *Differ) subsequences(a, b []element) {
	row := len(b) + 1
	d.lengths = append(d.lengths[:0], make([]uint16, (len(a)+1)*row)...)
	for k := len(a) - 1; k >= 0; k-- {
		for l := len(b) - 1; l >= 0; l-- {
			at := k*row + l
			if a[k].identity == b[l].identity {
				d.lengths[at] = d.lengths[at+row+1] + 1
			} else {
				d.lengths[at] = max(d.lengths[at+row], d.lengths[at+1])
			}
		}
	}
}

// common is what subsequences found for a[k:] and b[l:], b having n elements.
func (d *Differ) common(n, k, l int) uint16 { return d.lengths[k*(n+1)+l] }
