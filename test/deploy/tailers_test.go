package deploy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/filelogreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/test/invariant"
)

// Every line of a journal arrives, through rotations, a restart, a crash and a torn line of the daemon, and an outage of the
// tailer: with the Collector once, with rsyslog at least once. rsyslog does not read what is compressed, so it is here for
// compress: false alone. A crash of rsyslog is not here: it may lose a line, as docs/pipelines.md says.
func TestTailers(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprintf("compress=%t", compress), func(t *testing.T) {
			t.Parallel()
			testTailers(t, s, compress)
		})
	}
}

func testTailers(t *testing.T, s *server, compress bool) {
	j := newRotating(t, s, compress)
	j.run()
	rsyslog, filelog := newRsyslog(t, j), newFilelog(t, j)
	tailers := []tailer{filelog}
	if !compress { // which rsyslog needs
		tailers = append(tailers, rsyslog)
	}
	for _, each := range tailers {
		each.start()
	}
	// rsyslog looks at a file and opens it later, by its name: one that is rotated in between it misreads. With files of a few lines that happens, so it is given the time; the Collector is not.
	keepUp := func() {
		if rsyslog.running() {
			last := uint64(1 + 3*j.written) // SYNCED, and what rotate does to each object
			eventually(t, "rsyslog keeps up", func() error { return rsyslog.got().has(last) })
		}
	}

	j.rotate(2, keepUp)
	j.daemon.stop()
	j.run()
	j.rotate(2, keepUp)
	j.daemon.kill()
	j.run()
	j.rotate(1, keepUp)
	j.tear(tailers...)
	j.rotate(2, keepUp)
	filelog.stop()
	if !compress {
		rsyslog.stop()
	}
	j.rotate(3, keepUp)
	filelog.start()
	if !compress {
		rsyslog.start()
		keepUp()
	}
	j.rotate(1, keepUp)
	j.daemon.stop()

	lines, err := invariant.ReadJournal(j.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := invariant.Sequence(lines, 1); err != nil {
		t.Fatal(err)
	}
	raw := j.lines()
	for _, each := range tailers {
		eventually(t, "every line comes to "+each.name(), func() error { return each.got().has(uint64(len(lines))) })
		repeats := each.got().compare(t, each.name(), raw)
		t.Logf("%s: %d lines, %d of them again, %d torn, %d rotations", each.name(), len(lines), repeats, each.got().torn, j.rotations())
		if each == filelog && repeats+each.got().torn > 0 {
			t.Errorf("%s: %d lines came again, and %d torn ones", each.name(), repeats, each.got().torn)
		}
	}
}

// rotating is a journal of a daemon on the real server that rotates every few lines.
type rotating struct {
	t         *testing.T
	server    *server
	namespace string
	path      string
	args      []string
	daemon    *process
	written   int
	marked    int
}

func newRotating(t *testing.T, s *server, compress bool) *rotating {
	t.Helper()
	dir := t.TempDir()
	j := &rotating{t: t, server: s, namespace: fmt.Sprintf("tailed-%t", compress), path: filepath.Join(dir, "journal.jsonl")}
	s.apply(t, false, parse(t, fmt.Appendf(nil, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", j.namespace))...)
	config := filepath.Join(dir, "kubejournal.yaml")
	text := fmt.Sprintf("resources: [{resource: configmaps, namespaces: [%s]}]\noutput: {path: %s, maxSize: 16KiB, maxFiles: 1000, compress: %t}\ncheckpoint: {path: %s, interval: 200ms}\nlisten: 127.0.0.1:0\n",
		j.namespace, j.path, compress, filepath.Join(dir, "kubejournal.db"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	j.args = []string{"run", "--kubeconfig", s.Kubeconfig(), "--config", config}
	return j
}

// run starts the daemon, the first time or again.
func (j *rotating) run() {
	j.t.Helper()
	j.daemon = start(j.t, command(j.t, j.args...))
	eventually(j.t, "every stream watches", j.daemon.watching)
}

// rotate changes config maps until the journal has been rotated so many times more. After every few lines it calls written.
func (j *rotating) rotate(times int, written func()) {
	j.t.Helper()
	maps := j.server.client.CoreV1().ConfigMaps(j.namespace)
	before := j.rotations()
	for seen := before; seen < before+times; {
		j.written++
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", j.written)}, Data: map[string]string{"a": strings.Repeat("0123456789", 50+j.written%100)}}
		made, err := maps.Create(j.t.Context(), o, metav1.CreateOptions{})
		if err == nil {
			made.Data["b"] = "2"
			_, err = maps.Update(j.t.Context(), made, metav1.UpdateOptions{})
		}
		if err == nil {
			err = maps.Delete(j.t.Context(), o.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			j.t.Fatal(err)
		}
		written()
		seen = j.rotations()
	}
}

// rotations is how many rotated files there are.
func (j *rotating) rotations() int {
	j.t.Helper()
	names, err := invariant.JournalFiles(j.path)
	if err != nil {
		j.t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if name != j.path {
			n++
		}
	}
	return n
}

// lines are those of all files, as they stand there.
func (j *rotating) lines() [][]byte {
	j.t.Helper()
	cmd := command(j.t, "tail", "--no-follow", "--output", "json", "--lines", "1000000", j.path)
	out, err := cmd.Output()
	if err != nil {
		j.t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n"))
}

// tear leaves half a line at the end of the journal, as a crash can, has the tailers see it, and a start cut it off.
func (j *rotating) tear(tailers ...tailer) {
	j.t.Helper()
	j.daemon.stop()
	j.append(j.path, half)
	// By the time that lines of another file have come again and again, the half one has been looked at.
	for range 5 {
		j.mark(tailers...)
	}
	j.run()
	j.mark(tailers...)
}

// Of a line that was torn, and one that is in a folder of the journal without being its.
const (
	half   = `{"seq":0,"time":"2026-11-21T20:3`
	marker = `{"seq":0,"time":"2026-11-20T20:32:57.788000000Z","type":"ADDED","id":"marker-%d","stream":"pods","version":"v1","resource":"pods","kind":"Pod"}` + "\n"
)

// mark waits until the tailers have seen a line more of another file than the journal's.
func (j *rotating) mark(tailers ...tailer) {
	j.t.Helper()
	j.marked++
	j.append(filepath.Join(filepath.Dir(j.path), "journal-marker.jsonl"), fmt.Sprintf(marker, j.marked))
	for _, each := range tailers {
		eventually(j.t, each.name()+" goes on reading", func() error { return each.got().marked(j.marked) })
	}
}

func (j *rotating) append(path, text string) {
	j.t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// tailer is a program that reads a journal's files and sends what is in them.
type tailer interface {
	name() string
	start()
	stop()
	got() *received
}

// received is what a tailer has sent.
type received struct {
	mu      sync.Mutex
	lines   map[uint64][]byte // by seq, as the same object always looks
	times   map[uint64]int
	faults  []error
	markers int
	torn    int
}

// add takes a line and checks what the tailer says of it.
func (r *received) add(line []byte, check func(seen seen) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var l seen
	if bytes.HasPrefix(line, []byte(half)) {
		r.torn++
		return
	}
	if err := json.Unmarshal(line, &l); err != nil {
		r.faults = append(r.faults, fmt.Errorf("no line: %w: %s", err, line))
		return
	}
	if err := check(l); err != nil {
		r.faults = append(r.faults, err)
	}
	if l.Seq == 0 {
		r.markers++
		return
	}
	if r.lines == nil {
		r.lines, r.times = map[uint64][]byte{}, map[uint64]int{}
	}
	r.lines[l.Seq] = canonical(line)
	r.times[l.Seq]++
}

// seen is what a tailer is to know of a line.
type seen struct {
	Seq            uint64
	Time, Type, ID string
}

// canonical is a JSON object with its keys in order.
func canonical(line []byte) []byte {
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		return line
	}
	b, err := json.Marshal(v)
	if err != nil {
		return line
	}
	return b
}

// has has no error when each line up to a seq has come.
func (r *received) has(last uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for seq := uint64(1); seq <= last; seq++ {
		if _, ok := r.lines[seq]; !ok {
			return fmt.Errorf("%d of %d lines, the first that lacks is %d; faults: %v", len(r.lines), last, seq, r.faults)
		}
	}
	return nil
}

func (r *received) marked(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.markers < n {
		return fmt.Errorf("%d markers of %d", r.markers, n)
	}
	return nil
}

// compare holds what has come against the journal's lines, and tells how many came again.
func (r *received) compare(t *testing.T, name string, want [][]byte) (repeats int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.faults {
		t.Errorf("%s: %v", name, err)
	}
	for i, line := range want {
		seq := uint64(i + 1)
		if !bytes.Equal(canonical(line), r.lines[seq]) {
			t.Errorf("%s: the journal has\n%s\nand this came:\n%s", name, line, r.lines[seq])
		}
		repeats += r.times[seq] - 1
	}
	if len(r.lines) != len(want) {
		t.Errorf("%s: %d lines came of %d", name, len(r.lines), len(want))
	}
	return repeats
}

// rsyslog is Debian's, with the config of deploy/pipelines and a syslog server to send to.
type rsyslog struct {
	t       *testing.T
	program string
	config  string
	pid     string
	process *process
	all     received
}

func newRsyslog(t *testing.T, j *rotating) *rsyslog {
	t.Helper()
	dir := t.TempDir()
	r := &rsyslog{t: t, program: installed(t, "rsyslogd", "rsyslog"), config: filepath.Join(dir, "rsyslog.conf"), pid: filepath.Join(dir, "pid")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); served.Wait() })
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() { r.serve(conn) })
		}
	})
	content, err := os.ReadFile(filepath.Join(pipelines, "rsyslog", "kubejournal.conf"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, r := range [][2]string{
		{statePath + "/journal", filepath.Join(filepath.Dir(j.path), "journal")},
		{`target="syslog.example.com" port="601"`, `target="127.0.0.1" port="` + port + `"`},
	} {
		if strings.Count(text, r[0]) != 1 {
			t.Fatalf("rsyslog: %s stands there %d times", r[0], strings.Count(text, r[0]))
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	// As Debian's own /etc/rsyslog.conf does.
	main := fmt.Sprintf("$WorkDirectory %s\n$IncludeConfig %s\n", dir, filepath.Join(dir, "kubejournal.conf"))
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "kubejournal.conf"), []byte(text), 0o600), os.WriteFile(r.config, []byte(main), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(r.program, "-N1", "-f", r.config).CombinedOutput(); err != nil {
		t.Fatalf("rsyslogd -N1: %v\n%s", err, out)
	}
	return r
}

func (r *rsyslog) name() string   { return "rsyslog" }
func (r *rsyslog) got() *received { return &r.all }
func (r *rsyslog) stop()          { r.process.stop() }

// running reports whether it has not been stopped.
func (r *rsyslog) running() bool { return r.process != nil && r.process.Alive() }

func (r *rsyslog) start() {
	if err := os.Remove(r.pid); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash leaves it
		r.t.Fatal(err)
	}
	r.process = start(r.t, exec.Command(r.program, "-n", "-f", r.config, "-i", r.pid))
}

var (
	syslogMessage = regexp.MustCompile(`^<(\d+)>1 (\S+) \S+ kubejournal - (\S+) \[kubejournal@32473 id="([^"]*)" seq="(\d+)"\] (\{.*\})$`)
	unparsed      = regexp.MustCompile(`^<132>1 \d{4}\S+ \S+ kubejournal - - - `)
)

// serve reads messages in octet counting, RFC 6587.
func (r *rsyslog) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		length, err := in.ReadString(' ')
		if err != nil {
			return // the other end is gone
		}
		n, err := strconv.Atoi(strings.TrimSuffix(length, " "))
		if err != nil {
			r.all.add(nil, nil)
			return
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(in, message); err != nil {
			return
		}
		found := syslogMessage.FindSubmatch(message)
		if found == nil {
			r.all.add(unparsed.ReplaceAll(message, nil), nil)
			continue
		}
		r.all.add(found[6], func(l seen) error {
			priority := "134"
			if l.Type == "GAP" {
				priority = "132"
			}
			want := []string{priority, l.Time[:len("2026-11-20T20:32:57.788000")] + "Z", l.Type, l.ID, strconv.FormatUint(l.Seq, 10)}
			for i, w := range want {
				if string(found[i+1]) != w {
					return fmt.Errorf("seq %d: %s instead of %s", l.Seq, found[i+1], w)
				}
			}
			return nil
		})
	}
}

// filelog is the Collector's receiver and storage, with the config of deploy/pipelines.
type filelog struct {
	t         *testing.T
	receiver  map[string]any
	extension map[string]any
	all       received
	running   []component.Component // as they are stopped
}

func newFilelog(t *testing.T, j *rotating) *filelog {
	t.Helper()
	var config struct {
		Receivers, Extensions map[string]map[string]any
	}
	read(t, filepath.Join(pipelines, "opentelemetry-collector", "config.yaml"), &config)
	f := &filelog{t: t, receiver: config.Receivers["filelog"], extension: config.Extensions["file_storage"]}
	include := f.receiver["include"].([]any)
	for i, pattern := range include {
		include[i] = strings.Replace(pattern.(string), statePath, filepath.Dir(j.path), 1)
	}
	f.extension["directory"] = t.TempDir()
	t.Cleanup(f.stop)
	return f
}

func (f *filelog) name() string   { return "filelog" }
func (f *filelog) got() *received { return &f.all }

// host is what a receiver finds its extensions by.
type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

func (f *filelog) start() {
	f.t.Helper()
	ctx := f.t.Context()
	storage := filestorage.NewFactory()
	storageConfig := storage.CreateDefaultConfig()
	factory := filelogreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := errors.Join(confmap.NewFromStringMap(f.extension).Unmarshal(storageConfig), confmap.NewFromStringMap(f.receiver).Unmarshal(config)); err != nil {
		f.t.Fatal(err)
	}
	sink, err := consumer.NewLogs(f.consume)
	if err != nil {
		f.t.Fatal(err)
	}
	kept, err := storage.Create(ctx, extensiontest.NewNopSettings(storage.Type()), storageConfig)
	if err != nil {
		f.t.Fatal(err)
	}
	settings := receivertest.NewNopSettings(factory.Type())
	settings.ID = component.NewID(factory.Type()) // by which the storage knows it again
	receiver, err := factory.CreateLogs(ctx, settings, config, sink)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := kept.Start(ctx, componenttest.NewNopHost()); err != nil {
		f.t.Fatal(err)
	}
	if err := receiver.Start(ctx, host{component.NewID(storage.Type()): kept}); err != nil {
		f.t.Fatal(err)
	}
	f.running = []component.Component{receiver, kept}
}

func (f *filelog) stop() {
	for _, c := range f.running {
		if err := c.Shutdown(context.Background()); err != nil {
			f.t.Errorf("filelog: %v", err)
		}
	}
	f.running = nil
}

// consume takes what the receiver gives on. What the records look like is TestPipelines' business.
func (f *filelog) consume(_ context.Context, logs plog.Logs) error {
	for _, r := range logs.ResourceLogs().All() {
		for _, scope := range r.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				line := []byte(record.Body().AsString())
				f.all.add(line, func(l seen) error {
					if id, _ := record.Attributes().Get("log.record.uid"); id.Str() != l.ID {
						return fmt.Errorf("seq %d: id %s instead of %s", l.Seq, id.Str(), l.ID)
					}
					return nil
				})
			}
		}
	}
	return nil
}
