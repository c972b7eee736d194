// Package journaltest writes journals as the daemon does, at the times that a test gives: the lines are made by package
// object, the files, their rotation and their indexes by package journal, and what was covered by package coverage.
package journaltest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/segment"
	"kubejournal/test/invariant"
)

// Journal is a journal that is being written.
type Journal struct {
	Path string
	// Now is the time at which the next line is received. Made is when its change was made, if that is another time.
	Now, Made time.Time
	// MaxBytes bounds lines; 0 is as usual.
	MaxBytes int
	// Cluster and ClusterUID are those of streams that Stream returns. Term is that of a replica; 0 is no replica.
	Cluster, ClusterUID string
	Term                uint64

	t        testing.TB
	file     *journal.File
	coverage *coverage.File
	mark     journal.Mark
	seq, rv  uint64
	rotated  int    // files with an index
	sealed   uint64 // seq of the last line in a sealed file
	chain    string // of the last SEALED line
	streams  map[string]*Stream
}

// New begins a journal, in an existing folder, with a daemon that starts at a time.
func New(t testing.TB, path string, at time.Time) *Journal {
	j := &Journal{Path: path, Now: at, Cluster: "prod", ClusterUID: UID("cluster"), t: t, streams: map[string]*Stream{}}
	j.Start()
	t.Cleanup(j.Kill)
	return j
}

func (j *Journal) check(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// Start starts the daemon, again.
func (j *Journal) Start() {
	j.t.Helper()
	var err error
	j.file, err = journal.OpenFile(j.Path, journal.Options{MaxSize: 1 << 40, Compress: true})
	j.check(err)
	_, err = j.file.ReadBack(j.mark, j.seq, true, func([]byte, uint64) error {
		return errors.New("a line behind the last commit")
	})
	j.check(err)
	j.coverage, err = coverage.Open(j.Path, coverage.Options{Now: func() time.Time { return j.Now }})
	j.check(err)
	for _, s := range j.streams {
		s.progress.Late = 0
	}
}

// Stop stops the daemon, which has time to say so.
func (j *Journal) Stop() { j.end(true) }

// Kill ends the daemon.
func (j *Journal) Kill() { j.end(false) }

func (j *Journal) end(clean bool) {
	if j.file == nil {
		return
	}
	j.coverage.Close(clean)
	j.check(j.file.Close())
	j.file = nil
}

// Confirm commits what was written, with the streams having all that the server had done by now; late: all that had
// waited.
func (j *Journal) Confirm(late bool, streams ...*Stream) {
	j.t.Helper()
	j.check(j.file.Sync())
	j.mark = j.file.Mark()
	for _, s := range streams {
		s.progress.Confirmed = j.Now.UnixNano()
		if late {
			s.progress.Late = s.progress.Confirmed
		}
	}
	j.coverage.Committed(j.seq, j.mark.FirstSeq, func(yield func(string, coverage.Progress) bool) {
		for _, s := range streams {
			if !yield(s.name, s.progress) {
				return
			}
		}
	})
	j.file.Committed(j.seq)
}

// Remove takes a stream from the config.
func (j *Journal) Remove(s *Stream) { j.coverage.End(s.name, coverage.Removed) }

// Rotate makes the next line the first one of another file. What there was is then compressed and indexed.
func (j *Journal) Rotate() {
	j.t.Helper()
	j.file.SetLimits(journal.Options{MaxSize: 1, Compress: true})
	j.rotated++
}

// rotating waits for the end of what Rotate began.
func (j *Journal) rotating() {
	j.t.Helper()
	j.file.SetLimits(journal.Options{MaxSize: 1 << 40, Compress: true})
	j.check(j.file.Sync())
	j.file.Committed(j.seq)
	for deadline := time.Now().Add(time.Minute); ; {
		all, err := segment.List(j.Path)
		j.check(err)
		ready := 0
		for _, s := range all {
			if _, err := os.Stat(segment.IndexPath(s.Path)); s.Gzip && err == nil {
				ready++
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				j.t.Fatal(err)
			}
		}
		if ready >= j.rotated {
			return
		}
		if time.Now().After(deadline) {
			j.t.Fatal("a rotated file is not compressed: ", j.file.TidyError())
		}
		<-time.After(time.Millisecond)
	}
}

// Compact makes rotated files take at most so many bytes, which all are younger than the minimum age, and waits until
// they do.
func (j *Journal) Compact(bytes int64) {
	j.t.Helper()
	const active = 1 << 20 // which counts too
	j.file.SetLimits(journal.Options{MaxSize: active, MaxTotalSize: active + bytes, MinAge: time.Hour, Compress: true})
	for deadline := time.Now().Add(time.Minute); ; {
		kept, err := journal.Measure(j.Path)
		j.check(err)
		all, err := segment.List(j.Path)
		j.check(err)
		compacted := slices.ContainsFunc(all, func(s segment.Segment) bool { return s.UpTo > 0 })
		if kept.Size <= bytes && compacted {
			break
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("%d bytes: %v", kept.Size, j.file.TidyError())
		}
		<-time.After(time.Millisecond)
	}
	j.file.SetLimits(journal.Options{MaxSize: 1 << 40, Compress: true})
}

// Seal writes a SEALED line about each rotated file that has none, as docs/line.md says it.
func (j *Journal) Seal() {
	j.t.Helper()
	paths, err := invariant.JournalFiles(j.Path)
	j.check(err)
	for _, path := range paths[:len(paths)-1] {
		content, err := invariant.ReadFile(path)
		j.check(err)
		lines, err := invariant.Parse(path, 1, content)
		j.check(err)
		from, to := lines[0].Seq, lines[len(lines)-1].Seq
		if from <= j.sealed {
			continue
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		j.chain = fmt.Sprintf("%x",
			sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %s\n", j.chain, from, to, len(content), sum)))
		j.write(fmt.Appendf(nil, `,"time":"%s","type":"SEALED","id":"journal/%d-%d/%[1]s/SEALED","stream":"journal",`+
			`"version":"v1","resource":"journal",`+
			`"kind":"Journal","sealed":{"fromSeq":%[2]d,"toSeq":%d,"bytes":%d,"sha256":"%s","chain":"%s"}}`+"\n",
			j.Now.UTC().Format("2006-01-02T15:04:05.000000000Z"), from, to, len(content), sum, j.chain))
		j.sealed = to
	}
}

// write appends one line.
func (j *Journal) write(raw []byte) {
	j.t.Helper()
	all := line.AppendSeq(nil, j.seq+1)
	if j.Term > 0 {
		all = line.AppendTerm(all, j.Term)
	}
	all = append(all, raw...)
	first := j.file.Mark().FirstSeq
	n, err := j.file.Write(all)
	for err == nil && n < len(all) { // the file is rotated
		var more int
		more, err = j.file.Write(all[n:])
		n += more
	}
	j.check(err)
	j.seq++
	if is := j.file.Mark().FirstSeq; first > 0 && is != first {
		j.rotating()
	}
}

// Stream is a stream of the journal.
type Stream struct {
	// Payload is what lines have of their objects.
	Payload object.Payload
	// NoChanges leaves out what changed.
	NoChanges bool

	j        *Journal
	name     string
	renderer *object.Renderer
	secret   bool
	before   map[string]version // by uid
	progress coverage.Progress
	origin   line.Origin
	count    line.Count
	position string
}

// version is one of an object.
type version struct {
	shaped []byte
	data   map[string]any // of a Secret
	object map[string]any
}

// Stream returns the stream of a name such as deployments.apps, cronjobs.v1beta1.batch or pods?namespace=web.
func (j *Journal) Stream(name, kind string) *Stream {
	j.t.Helper()
	resource, scope, scoped := strings.Cut(name, "?")
	resource, group, _ := strings.Cut(resource, ".")
	apiVersion := "v1"
	if first, rest, ok := strings.Cut(group, "."); ok && strings.HasPrefix(first, "v") &&
		strings.ContainsAny(first[1:2], "123") {
		apiVersion, group = first, rest
	}
	name = resource
	if group != "" {
		name += "." + group
	}
	if scoped {
		name += "?" + scope
	}
	s := j.streams[name]
	if s == nil {
		s = &Stream{j: j, name: name, before: map[string]version{}}
		j.streams[name] = s
	}
	s.secret = kind == "Secret"
	var err error
	s.renderer, err = object.NewRenderer(object.Source{
		Stream: name, Cluster: j.Cluster, Group: group, Version: apiVersion, Resource: resource, Kind: kind,
		ClusterUID: j.ClusterUID,
	}, object.Shape{Secret: s.secret})
	j.check(err)
	return s
}

// UID returns the uid that begins with some hexadecimal digits, eight at most.
func UID(digits string) string { return digits + "00000000-0000-4000-8000-000000000000"[len(digits):] }

// object makes the next version of an object, which text has as JSON, with metadata.uid as for UID.
func (s *Stream) object(text string) (o object.Object, v version) {
	s.j.t.Helper()
	s.j.check(json.Unmarshal([]byte(text), &v.object))
	metadata, ok := v.object["metadata"].(map[string]any)
	if !ok {
		s.j.t.Fatalf("no metadata: %s", text)
	}
	uid, _ := metadata["uid"].(string)
	metadata["uid"] = UID(uid)
	s.j.rv += 10
	metadata["resourceVersion"] = strconv.FormatUint(s.j.rv, 10)
	metadata["creationTimestamp"] = s.j.made().UTC().Format(time.RFC3339)
	if before, there := s.before[UID(uid)]; there {
		metadata["creationTimestamp"] = before.object["metadata"].(map[string]any)["creationTimestamp"]
	}
	v.data, _ = v.object["data"].(map[string]any)
	raw, err := json.Marshal(v.object)
	s.j.check(err)
	s.j.check(s.renderer.Scan(raw, &o))
	v.shaped = o.AppendShaped(nil)
	s.position = string(o.ResourceVersion)
	return o, v
}

// made is when the change of the next line is made.
func (j *Journal) made() time.Time {
	if j.Made.IsZero() {
		return j.Now
	}
	return j.Made
}

// Put writes the line of a version: ADDED, or MODIFIED if the stream has the object. by is MANAGER or
// MANAGER/SUBRESOURCE, "" where that is not known, and then it is not known either when a late one was made.
func (s *Stream) Put(by, text string) {
	s.j.t.Helper()
	o, v := s.object(text)
	l := object.Line{Type: line.Added, Origin: s.origin, Received: s.j.Now, Payload: s.Payload, MaxBytes: s.j.MaxBytes}
	before, there := s.before[string(o.UID)]
	if there {
		l.Type = line.Modified
	}
	if s.origin == line.FromWatch && (by != "" || !there) {
		manager, subresource, _ := strings.Cut(by, "/")
		l.Write = object.Write{Manager: []byte(manager), Subresource: []byte(subresource), At: s.j.made().Unix()}
	}
	if there && !s.NoChanges {
		l.Changes = s.changed(before, v)
	}
	s.before[string(o.UID)] = v
	s.line(l, &o)
}

// changed lists what changed, redacted values too.
func (s *Stream) changed(before, v version) []byte {
	s.j.t.Helper()
	all, err := changes.Append(nil, before.shaped, v.shaped)
	s.j.check(err)
	for _, key := range slices.Sorted(maps.Keys(v.data)) {
		if was, there := before.data[key]; s.secret && there && was != v.data[key] {
			all = fmt.Appendf(all[:len(all)-1],
				`,{"op":"replace","path":"/data/%s","old":"REDACTED","value":"REDACTED"}]`, key)
		}
	}
	return all
}

// Delete writes the line of a deletion, with the object as it was.
func (s *Stream) Delete(uid string) {
	s.j.t.Helper()
	v, k := s.before[UID(uid)], s.known(uid)
	delete(s.before, UID(uid))
	l := object.Line{
		Type: line.Deleted, Origin: s.origin, Received: s.j.Now, Payload: s.Payload, MaxBytes: s.j.MaxBytes,
	}
	if s.origin == line.FromRelist {
		var o object.Object
		s.j.check(s.renderer.Scan(v.shaped, &o))
		raw, err := s.renderer.AppendGone(nil, s.j.Now, k, l, &o)
		s.j.check(err)
		s.count.Deleted++
		s.j.write(raw)
		return
	}
	s.j.rv += 10
	v.object["metadata"].(map[string]any)["resourceVersion"] = strconv.FormatUint(s.j.rv, 10)
	raw, err := json.Marshal(v.object)
	s.j.check(err)
	var o object.Object
	s.j.check(s.renderer.Scan(raw, &o))
	s.position = string(o.ResourceVersion)
	s.line(l, &o)
}

// Forgotten writes the line of a deletion that a relist has found, without the object as it was: the daemon keeps none.
func (s *Stream) Forgotten(uid string) {
	s.j.t.Helper()
	line, err := s.renderer.AppendGone(nil, s.j.Now, s.known(uid), object.Line{Payload: s.Payload}, nil)
	s.j.check(err)
	delete(s.before, UID(uid))
	s.count.Deleted++
	s.j.write(line)
}

// known returns what names an object.
func (s *Stream) known(uid string) object.Known {
	metadata := s.before[UID(uid)].object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return object.Known{
		Namespace: namespace, Name: metadata["name"].(string), UID: UID(uid),
		ResourceVersion: metadata["resourceVersion"].(string),
	}
}

func (s *Stream) line(l object.Line, o *object.Object) {
	s.j.t.Helper()
	raw, err := s.renderer.AppendLine(nil, l, o)
	s.j.check(err)
	if s.origin != line.FromWatch {
		s.count.Add(l.Type)
	}
	s.j.write(raw)
}

// Snapshot begins the stream: what is put up to Synced existed before.
func (s *Stream) Snapshot() { s.origin, s.count = line.FromSnapshot, line.Count{} }

// Adopt continues after the last line of a stream that another replica has written.
func (s *Stream) Adopt(of *Stream) {
	s.before, s.position, s.origin = maps.Clone(of.before), of.position, line.FromWatch
	s.j.rv = max(s.j.rv, of.j.rv)
	s.progress = coverage.Progress{Since: s.j.Now.UnixNano()}
}

// HeldBack says by which keys of its entry the stream holds changes back from now on.
func (s *Stream) HeldBack(keys ...string) { s.j.coverage.Begin(s.name, keys) }

// Gap writes a GAP: the position was last confirmed at a time, which may be zero. What is put up to Synced is the net
// difference.
func (s *Stream) Gap(reason line.Reason, from time.Time) {
	s.j.t.Helper()
	s.j.rv += 100
	s.j.write(s.renderer.AppendGap(nil, s.j.Now, reason, s.position, from, strconv.FormatUint(s.j.rv, 10)))
	s.origin, s.count = line.FromRelist, line.Count{}
	s.progress.Lost = string(reason)
	s.j.Confirm(false)
	s.j.coverage.Committed(s.j.seq, s.j.mark.FirstSeq, func(yield func(string, coverage.Progress) bool) {
		yield(s.name, s.progress)
	})
}

// Synced ends a list.
func (s *Stream) Synced() {
	s.j.t.Helper()
	s.j.rv++
	s.position = strconv.FormatUint(s.j.rv, 10)
	changed := s.count.Added + s.count.Modified + s.count.Deleted
	s.count.Unchanged = int64(len(s.before)) - s.count.Added - s.count.Modified
	s.j.write(s.renderer.AppendSynced(nil, s.j.Now, s.position, s.count))
	s.origin = line.FromWatch
	s.progress = coverage.Progress{Since: s.j.Now.UnixNano(), Differences: changed}
	s.j.Confirm(false, s)
}
