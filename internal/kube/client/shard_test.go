package client

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

var shardRange = regexp.MustCompile(`^shardRange\((object\.metadata\.uid), '(0x[0-9a-f]{16})', '(0x[0-9a-f]{16}|0x10000000000000000)'\)$`)

// TestShards has each object in exactly one of the shards, which is the one to which the server's hash and the selector lead.
func TestShards(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, count := range []int{0, 1, 2, 3, 4, 7, 1000} {
		shards := []Shard{{}}
		if count > 0 {
			shards = nil
			for i := range count {
				shards = append(shards, Shard{i, count})
			}
		}
		selectors := make([]sharding.Selector, len(shards))
		for i, s := range shards {
			switch m := shardRange.FindStringSubmatch(s.Selector()); {
			case count <= 1 && s.Selector() == "":
				selectors[i] = sharding.Everything()
			case m == nil:
				t.Fatalf("%v: %q", s, s.Selector())
			default:
				selectors[i] = sharding.NewSelector(sharding.ShardRangeRequirement{Key: m[1], Start: m[2], End: m[3]})
			}
		}
		for n := range 300 {
			uid := fmt.Sprintf("%08x-%04x-4000-8000-%012x", random.Uint32(), random.IntN(1<<16), random.Uint64()>>16)
			if n == 0 {
				uid = "" // as of an aggregated server
			}
			object, in := &v1.PartialObjectMetadata{ObjectMeta: v1.ObjectMeta{UID: types.UID(uid)}}, 0
			for i, s := range shards {
				want, err := selectors[i].Matches(object)
				if got := s.Has([]byte(uid)); err != nil || got != want {
					t.Fatalf("%v has %s: %t, want %t, %v", s, uid, got, want, err)
				}
				if want {
					in++
				}
			}
			if in != 1 {
				t.Errorf("%s is in %d of %d shards", uid, in, count)
			}
		}
	}
}
