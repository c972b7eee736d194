package fake

import (
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// store is the numbered history of one kind of stored object. It is guarded by
// Server.mu; records themselves never change once they are in the log, except
// for their cache of encodings.
type store struct {
	log   []*record          // in the order of versions
	heads map[string]*record // the newest record of each key, tombstones too
	// window is the version at which the watch cache begins.
	window  uint64
	changed chan struct{} // closed and replaced at every record
}

// record is one write: an object as it was from version on.
type record struct {
	version uint64
	time    time.Time
	key     string // <namespace>/<name>, or the name alone
	deleted bool
	// object is the stored state. In a tombstone it is the state before, with
	// the version of the deletion, which is what a watch sends.
	object map[string]any
	prev   *record // of the same key; nil for the first

	encoded map[encoding][]byte // filled on demand, guarded by Server.mu
}

func newStore(window uint64) *store {
	return &store{heads: map[string]*record{}, window: window, changed: make(chan struct{})}
}

// before is the live state that the record replaced, or nil.
func (r *record) before() *record {
	if r.prev == nil || r.prev.deleted {
		return nil
	}
	return r.prev
}

func (st *store) append(r *record) {
	r.prev = st.heads[r.key]
	st.heads[r.key] = r
	st.log = append(st.log, r)
	close(st.changed)
	st.changed = make(chan struct{})
}

// live is the current record of key, or nil.
func (st *store) live(key string) *record {
	if r := st.heads[key]; r != nil && !r.deleted {
		return r
	}
	return nil
}

// at returns, in key order, what existed at version under the keys that begin
// with prefix.
func (st *store) at(version uint64, prefix string) []*record {
	var out []*record
	for key, r := range st.heads {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		for r != nil && r.version > version {
			r = r.prev
		}
		if r != nil && !r.deleted {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *record) int { return strings.Compare(a.key, b.key) })
	return out
}

// after returns the records that are newer than version.
func (st *store) after(version uint64) []*record {
	i := sort.Search(len(st.log), func(i int) bool { return st.log[i].version > version })
	return st.log[i:len(st.log):len(st.log)]
}

// cutBack forgets all records after version.
func (st *store) cutBack(version uint64) {
	dropped := st.after(version)
	st.log = st.log[:len(st.log)-len(dropped)]
	for _, r := range dropped {
		head := st.heads[r.key]
		for head != nil && head.version > version {
			head = head.prev
		}
		if head == nil {
			delete(st.heads, r.key)
		} else {
			st.heads[r.key] = head
		}
	}
}

// put writes object, which must be stamped and is owned by the store from here
// on, as the next version. It is called with mu held.
func (s *Server) put(st *store, object map[string]any, deleted bool) *record {
	s.version++
	meta := metadata(object)
	meta["resourceVersion"] = formatVersion(s.version)
	r := &record{version: s.version, time: time.Now(), key: keyOf(text(meta, "namespace"), text(meta, "name")),
		deleted: deleted, object: object}
	st.append(r)
	s.notify()
	return r
}

// Version is that of the last write.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Compact makes etcd forget what was before version: lists at an older version,
// continue tokens, and watches of resources without a watch cache answer 410.
// Watches of all others continue from the watch cache, as on the real server; see
// Expire.
func (s *Server) Compact(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = max(s.compacted, min(version, s.version))
}

// Expire makes the watch caches forget the events up to version, as when many
// newer ones have pushed them out: a watch from before answers 410.
func (s *Server) Expire(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.resources {
		r.store.window = max(r.store.window, min(version, s.version))
	}
}

// DropHistory does both Compact and Expire at the current version.
func (s *Server) DropHistory() {
	v := s.Version()
	s.Compact(v)
	s.Expire(v)
}

// RestoreTo puts back a backup of etcd that was taken at version, and restarts:
// the version and all objects go back, and the versions after it are given out
// a second time, for other writes.
func (s *Server) RestoreTo(version uint64) {
	s.mu.Lock()
	s.version = min(version, s.version)
	s.compacted = min(s.compacted, s.version)
	cut := map[*store]bool{}
	for _, r := range s.resources {
		if !cut[r.store] {
			cut[r.store] = true
			r.store.cutBack(s.version)
		}
	}
	s.loseWatchCache()
	for st := range s.streams {
		st.abort() // before any of them looks at the new history
	}
	s.notify()
	s.mu.Unlock()
	s.conns.cut()
}

// lookup finds the resource that serves gvr. It is called with mu held.
func (s *Server) lookup(gvr schema.GroupVersionResource) *resource {
	r := s.find(gvr.GroupResource())
	if r == nil || !r.serves(gvr.Version) {
		return nil
	}
	return r
}
