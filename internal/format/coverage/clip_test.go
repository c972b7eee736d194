package coverage

import (
	"testing"

	"kubejournal/internal/format/segment"
)

// A compacted segment stands for all that it was made of, which are known by their first lines.
func TestCompacted(t *testing.T) {
	p := presenceOf([]segment.Segment{{FirstSeq: 10, UpTo: 30}, {FirstSeq: 31, Head: 7}})
	for s, want := range map[segmentRecord]bool{
		{first: 9}:              false,
		{first: 10}:             true,
		{first: 30}:             true,
		{first: 30, gone: true}: false,
		{first: 31, head: 7}:    true,
		{first: 31, head: 8}:    false,
	} {
		if p.has(&s) != want {
			t.Errorf("%+v: there %v", s, !want)
		}
	}
}
