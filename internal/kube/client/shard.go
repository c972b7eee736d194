package client

import (
	"fmt"
	"math/bits"
)

// Shard is a share of objects: those whose uids have hashes in the range Index of Count equal ones, which begin with 0.
// Hash and selector are those of KEP-5866 (k8s.io/apimachinery/pkg/sharding). The zero Shard is all objects.
type Shard struct{ Index, Count int }

// bounds returns the first hash of the range, and the first one after it; 0 is 2^64.
func (s Shard) bounds() (start, end uint64) {
	at := func(index int) uint64 {
		quotient, _ := bits.Div64(uint64(index), 0, uint64(s.Count))
		return quotient
	}
	if start = at(s.Index); s.Index+1 < s.Count {
		end = at(s.Index + 1)
	}
	return start, end
}

// Has reports whether an object is in the share.
func (s Shard) Has(uid []byte) bool {
	if s.Count <= 1 {
		return true
	}
	hash := uint64(14695981039346656037) // FNV-1a
	for _, b := range uid {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	start, end := s.bounds()
	return start <= hash && hash <= end-1 // 2^64-1 where end is 0
}

// Selector returns the parameter shardSelector of a request; empty for all objects.
func (s Shard) Selector() string {
	if s.Count <= 1 {
		return ""
	}
	start, end := s.bounds()
	last := fmt.Sprintf("0x%016x", end)
	if end == 0 {
		last = "0x10000000000000000"
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '0x%016x', '%s')", start, last)
}
