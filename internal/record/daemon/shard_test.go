package daemon

import (
	"strings"
	"testing"
)

// The files of one shard are not for another one, whose streams would start over without a GAP: an edit is refused, and so is a
// start. One of one is the whole.
func TestShardOfFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	l := newLive(t)
	config := func(shard string) { writeFile(t, l.config(), l.text("configmaps", "shard: "+shard)) }
	config("{index: 0, count: 2}")
	l.start()
	l.watched("configmaps?shard=0-of-2")
	config("{index: 0, count: 3}")
	l.refused("kubejournal.yaml:5: shard: cannot change from 0-of-2 to 0-of-3: ")
	l.watched("configmaps?shard=0-of-2")
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	for shard, want := range map[string]string{
		"{index: 0, count: 3}": " is of 0-of-2 (stream configmaps?shard=0-of-2), and shard in the config is 0-of-3; ",
		"{index: 1, count: 2}": " in the config is 1-of-2; ",
		"{index: 0, count: 1}": " in the config is the whole; ",
	} {
		config(shard)
		l.start()
		l.until("it has ended", func() bool { return l.logged(want) > 0 })
		if err := l.stop(); err == nil || !strings.HasPrefix(err.Error(), "checkpoint.path: ") {
			t.Errorf("%s: %v", shard, err)
		}
	}
	config("{index: 0, count: 2}")
	l.start()
	l.watched("configmaps?shard=0-of-2")
	l.until("it says that it resumes", func() bool { return l.logged(`"msg":"resuming"`) > 0 })
	if n := l.logged(`"msg":"resuming"`); n != 1 {
		t.Errorf("resumed %d times", n)
	}
}

func TestShardOfOne(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	writeFile(t, l.config(), l.text("configmaps", "shard: {index: 0, count: 1}"))
	l.inEffect()
	l.watched("configmaps")
	writeFile(t, l.config(), l.text("configmaps", "shard: {index: 0, count: 2}"))
	l.refused("shard: cannot change from the whole to 0-of-2: ")
}
