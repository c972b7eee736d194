package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"kubejournal/internal/format/line"
)

// checkShard makes sure that the checkpoint is of the daemon's shard. The streams of another one would not be
// continued: what has happened since would be missing, without a GAP.
func (d *Daemon) checkShard(context.Context) error {
	streams, err := d.store.Streams()
	if err != nil {
		return err
	}
	is := d.cfg.Shard.String()
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		if was := line.ParseStreamName(name).Shard; was != is {
			return fmt.Errorf("checkpoint.path: %s is of %s (stream %s), and shard in the config is %s; put the old "+
				"value back, or name another checkpoint and output",
				d.store.Path(), shardText(was), name, shardText(is))
		}
	}
	return nil
}

// shardText names a shard for people.
func shardText(shard string) string { return cmp.Or(shard, "the whole") }
