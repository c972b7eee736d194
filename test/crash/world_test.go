//go:build linux && amd64

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const (
	existing  = 20 // objects before the first start
	few       = 8  // in a world that forgets: their lines must be seen before they go
	keptFiles = 3  // where a world forgets
)

var entries = []workload.Entry{{Kind: workload.ConfigMaps, Changes: true}, {Kind: workload.Secrets}}

// padding makes some ten lines fill a file of the smallest size that the config takes.
var padding = strings.Repeat("0123456789", 12)

// world is a cluster, and a daemon with its folder over all its runs.
type world struct {
	programs programs
	dir      string // everything
	folder   string // journal and checkpoint
	server   *fake.Server
	forgets  bool // retention is on

	n       int // writes so far
	objects []workload.Object
	ledger  workload.Ledger
	runs    int

	lines []invariant.Line // of the journal, whatever has become of its files
	seen  string           // what the files looked like then

	count      count // at the last time when all lines should have been there
	recovering bool  // a run without a fault brings everything right: what is not told by now is lost
}

func newWorld(programs programs, dir string, forgets bool) (*world, error) {
	w := &world{programs: programs, dir: dir, folder: filepath.Join(dir, "data"), forgets: forgets}
	w.ledger.Sources = workload.Sources(entries)
	if err := os.MkdirAll(w.folder, 0o700); err != nil {
		return nil, err
	}
	w.server = fake.New(fake.Options{BookmarkInterval: time.Hour})
	kubeconfig, err := w.server.Kubeconfig(dir)
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	output, objects := map[string]any{"path": w.journal(), "maxSize": "4KiB", "maxFiles": 0}, existing
	if forgets {
		output["maxFiles"], output["minAge"], objects = keptFiles, "0s", few
	}
	config, err := yaml.Marshal(map[string]any{
		"kubernetes": map[string]any{"kubeconfig": kubeconfig},
		"resources":  workload.Configs(entries),
		"output":     output,
		"checkpoint": map[string]any{"path": filepath.Join(w.folder, CheckpointName), "interval": "10ms"},
		"listen":     "127.0.0.1:0",
	})
	if err == nil {
		err = os.WriteFile(w.config(), config, 0o600)
	}
	for range objects {
		if err == nil {
			err = w.create()
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) close() error {
	w.server.Close()
	return os.RemoveAll(w.dir)
}

func (w *world) journal() string { return filepath.Join(w.folder, JournalName) }
func (w *world) config() string  { return filepath.Join(w.dir, "config.yaml") }

// write makes n writes, each acknowledged.
func (w *world) write(n int) error {
	for range n {
		var err error
		switch w.n % 5 {
		case 1:
			err = w.create()
		case 4:
			err = w.delete()
		default:
			err = w.update()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// content is what an object holds besides its name.
func (w *world) content() map[string]any {
	key := map[string]any{"n": fmt.Sprint(w.n), "padding": padding}
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": fmt.Sprint(w.n)}}, "data": key}
}

func (w *world) create() error {
	w.n++
	return w.make(workload.Object{Kind: entries[w.n%len(entries)].Kind, Namespace: "default", Name: fmt.Sprintf("object-%d", w.n)})
}

func (w *world) make(o workload.Object) error {
	content := w.content()
	content["metadata"] = map[string]any{"namespace": o.Namespace, "name": o.Name}
	made, err := w.server.Create(o.Kind.Resource, content)
	if err != nil {
		return err
	}
	u := unstructured.Unstructured{Object: made}
	o.UID = string(u.GetUID())
	w.ledger.Acknowledge(o, "", "x", u.GetResourceVersion())
	w.objects = append(w.objects, o)
	return nil
}

func (w *world) update() error {
	w.n++
	o := w.objects[w.n%len(w.objects)]
	made, err := w.server.Patch(o.Kind.Resource, o.Namespace, o.Name, w.content())
	if err != nil {
		return err
	}
	u := unstructured.Unstructured{Object: made}
	w.ledger.Acknowledge(o, "x", "x", u.GetResourceVersion())
	return nil
}

// delete deletes the oldest object, and every other time makes it again under its name.
func (w *world) delete() error {
	w.n++
	o := w.objects[0]
	w.objects = w.objects[1:]
	if _, err := w.server.Delete(o.Kind.Resource, o.Namespace, o.Name); err != nil {
		return err
	}
	w.ledger.Acknowledge(o, "x", "", "") // a client is not told of the version
	if w.n%2 == 0 {
		return nil
	}
	return w.make(o)
}

// start starts the daemon; f is nil for a run without a fault.
func (w *world) start(f *fault) (*run, error) {
	w.runs++
	log := filepath.Join(w.dir, fmt.Sprintf("stderr-%d", w.runs))
	stderr, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	r := &run{log: log, plan: newPlan(f, log)}
	if f != nil && f.mode.cuts() {
		grave := filepath.Join(w.dir, fmt.Sprintf("grave-%d", w.runs))
		if err := os.Mkdir(grave, 0o700); err != nil {
			return nil, err
		}
		if r.plan.image, err = NewImage(w.folder, grave); err != nil {
			return nil, err
		}
	}
	r.Process, err = Start(Command{
		Confine: w.programs.confine, Args: []string{w.programs.kubejournal, "run", "--config", w.config()},
		// Nothing of the developer's own; halt_on_error makes a race an exit status.
		Env: []string{"HOME=" + w.dir, "TMPDIR=" + w.dir, "GORACE=halt_on_error=1"},
		Dir: w.dir, Stderr: stderr, Folder: w.folder,
	}, r.plan)
	return r, err
}

// collect takes in what the journal's files tell. A line that was seen once must stand there unchanged for as long as its
// file is kept.
func (w *world) collect() error {
	seen, err := w.look()
	if err != nil || seen == w.seen {
		return err
	}
	lines, err := invariant.ReadJournal(w.journal())
	if err != nil {
		return err
	}
	for i := range lines {
		l := &lines[i]
		switch next := uint64(len(w.lines)) + 1; {
		case i > 0 && l.Seq != lines[i-1].Seq+1:
			return program.Final(fmt.Errorf("%s: seq %d after %d", l.Where, l.Seq, lines[i-1].Seq))
		case l.Seq > next:
			return program.Final(fmt.Errorf("%s: seq %d, the last one seen is %d", l.Where, l.Seq, next-1))
		case l.Seq == next:
			w.lines = append(w.lines, *l)
		case l.ID != w.lines[l.Seq-1].ID || l.Time != w.lines[l.Seq-1].Time:
			return program.Final(fmt.Errorf("%s: seq %d is now %s, was %s", l.Where, l.Seq, l.ID, w.lines[l.Seq-1].ID))
		}
	}
	w.seen = seen
	return nil
}

// look describes the files, so that unchanged ones need not be read.
func (w *world) look() (string, error) {
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		if role := roleOf(e.Name()); role == Checkpoint || role == Coverage || role == Documents {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // renamed since
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return b.String(), nil
}

// afterCut forgets the lines that a power cut has taken: they come again, with another time. What can still be read was
// there before, unchanged.
func (w *world) afterCut() error {
	files, err := invariant.JournalFiles(w.journal())
	if err != nil {
		return err
	}
	left, first := make(map[uint64]*invariant.Line), uint64(math.MaxUint64)
	for _, name := range files {
		lines, err := invariant.Read(name)
		if err != nil && !strings.HasSuffix(name, ".gz") {
			if lines, err = wholeLines(name); err != nil {
				return err
			}
		} else if err != nil {
			continue // a plain file stands beside it, or the next run complains
		}
		for i := range lines {
			left[lines[i].Seq], first = &lines[i], min(first, lines[i].Seq)
		}
	}
	// What stood before them has gone with its age.
	w.seen = ""
	for next := first; next <= uint64(len(w.lines)); next++ {
		if l := left[next]; l == nil || l.ID != w.lines[next-1].ID || l.Time != w.lines[next-1].Time {
			w.lines = w.lines[:next-1]
			return nil
		}
	}
	if len(left) == 0 {
		w.lines = nil
	}
	return nil
}

// wholeLines reads the lines of a plain file up to the first that is none.
func wholeLines(name string) ([]invariant.Line, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []invariant.Line
	for raw := range bytes.Lines(data) {
		lines, err := invariant.Parse(filepath.Base(name), len(all)+1, raw)
		if err != nil {
			break
		}
		all = append(all, lines...)
	}
	return all, nil
}

// caughtUp reports whether the lines bring a reader to where the server is.
func (w *world) caughtUp() error {
	if err := w.collect(); err != nil {
		return err
	}
	state, err := invariant.Replay(w.lines)
	if err != nil {
		return program.Final(err)
	}
	live, err := w.live()
	if err != nil {
		return program.Final(err)
	}
	return invariant.Compare(state, live)
}

// live returns the server's objects.
func (w *world) live() (invariant.State, error) {
	live := make(invariant.State)
	for _, e := range entries {
		gvr := e.Kind.Resource
		items, err := w.server.List(gvr, "")
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			meta, _ := item["metadata"].(map[string]any)
			name, _ := meta["name"].(string)
			namespace, _ := meta["namespace"].(string)
			k := invariant.Key{Resource: gvr.Resource, Namespace: namespace, Name: name}
			content, err := json.Marshal(item)
			if err != nil {
				return nil, err
			}
			if live[k], err = invariant.Expect(k, content); err != nil {
				return nil, err
			}
		}
	}
	return live, nil
}

// settled reports whether the files are as they should be at rest: nothing half done, nothing left over but, if mayLeave
// says so, a checkpoint's first form.
func (w *world) settled(mayLeave bool) error {
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return err
	}
	files, err := invariant.JournalFiles(w.journal())
	if err != nil {
		return err
	}
	rotated := 0
	indexes := make(map[string]bool)
	for _, e := range entries {
		switch role := roleOf(e.Name()); {
		case role == Index && strings.HasSuffix(e.Name(), indexSuffix) && !strings.HasPrefix(e.Name(), "."):
			indexes[filepath.Join(w.folder, e.Name())] = true
		case role == Compressed && strings.HasSuffix(e.Name(), ".gz") && !strings.HasPrefix(e.Name(), "."):
			rotated++
		case role == Note:
		case mayLeave && strings.HasPrefix(e.Name(), "."+CheckpointName):
		case !slices.Contains([]string{JournalName, CheckpointName, CoverageName, DocumentsName}, e.Name()):
			return fmt.Errorf("%s is still there", e.Name())
		}
	}
	if rotated+1 != len(files) {
		return fmt.Errorf("%d files in the folder, of which the journal's are %d", rotated+1, len(files))
	}
	for _, file := range files[:rotated] {
		if path := segment.IndexPath(file); !indexes[path] {
			return fmt.Errorf("%s is not there", path)
		}
	}
	if len(indexes) != rotated {
		return fmt.Errorf("%d indexes of %d rotated files", len(indexes), rotated)
	}
	if w.forgets && rotated > keptFiles {
		return fmt.Errorf("%d rotated files are kept, not %d", rotated, keptFiles)
	}
	return nil
}

// verify checks the journal against all that is promised of it.
func (w *world) verify() error {
	if err := w.caughtUp(); err != nil {
		return err
	}
	changing := slices.DeleteFunc(slices.Clone(w.lines), func(l invariant.Line) bool { return l.Stream != "configmaps" })
	err := errors.Join(invariant.All(w.lines, invariant.Options{Interrupted: true}), invariant.Writes(w.lines, w.ledger.Writes()), invariant.Changes(changing))
	for _, l := range w.lines {
		if l.Type == invariant.Gap {
			err = errors.Join(err, fmt.Errorf("%s: GAP %s from %s to %s, though the server had the history", l.Where, l.Reason, l.FromResourceVersion, l.ResourceVersion))
		}
	}
	return errors.Join(err, w.covered(), w.answers())
}

// answers checks that the journal's files and their indexes agree, and that what was there at some of its lines is what the
// lines say, as they were when they were written. It begins again where a file was removed for its age meanwhile.
func (w *world) answers() error {
	for {
		before, err := w.look()
		if err != nil {
			return err
		}
		wrong := w.ask()
		if !errors.Is(wrong, fs.ErrNotExist) {
			return wrong
		}
		if now, err := w.look(); err != nil || now == before {
			return errors.Join(wrong, err)
		}
	}
}

func (w *world) ask() error {
	var errs []error
	fault := func(text string) { errs = append(errs, errors.New(text)) }
	opened, err := archive.Open(w.journal(), fault)
	if err != nil {
		return err
	}
	j := question.Of(opened)
	defer j.Close()
	ctx := context.Background()
	is, err := verify.Files(ctx, opened, fault)
	errs = append(errs, err)
	ends, err := j.Ends(ctx) // a line about files that are gone may have come since
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	oldest := ends[0].Begin.Seq
	for seq := oldest; seq <= uint64(len(w.lines)); seq += 1 + uint64(is.Lines)/10 {
		st, err := j.State(ctx, &argument.Selection{}, argument.Moment{Seq: seq})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		want := make(map[uint64]bool)
		for _, last := range invariant.Last(w.lines[:seq]) {
			want[last] = true
		}
		for _, item := range st.Items {
			if !want[item.Last.Seq] || item.Gone != (item.Last.Seq < oldest) {
				fault(fmt.Sprintf("at line %d there is %s as of line %d, gone %t", seq, item.Name, item.Last.Seq, item.Gone))
			}
			delete(want, item.Last.Seq)
		}
		for last := range want {
			if last >= oldest {
				fault(fmt.Sprintf("at line %d the object of line %d is missing", seq, last))
			}
		}
	}
	return errors.Join(errs...)
}

// covered checks that the coverage file, if there is one, can be read, and claims no time twice nor any to come.
func (w *world) covered() error {
	streams, err := coverage.Read(w.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, s := range streams {
		for n, i := range s.Intervals {
			if i.To.Before(i.From) || i.To.Equal(i.From) && n < len(s.Intervals)-1 || i.To.After(time.Now()) || n > 0 && i.From.Before(s.Intervals[n-1].To) {
				err = errors.Join(err, fmt.Errorf("%s: interval %d of %+v", s.Name, n, s.Intervals))
			}
		}
	}
	return err
}

// documented reports whether the last documents of the API that are recorded are those that the server has.
func (w *world) documented() error {
	docs, err := apidocs.Open(w.journal())
	if err != nil {
		return err
	}
	defer docs.Close()
	m, _, err := docs.At(time.Now())
	if err != nil {
		return err
	}
	if m == nil {
		return errors.New("no documents of the API are recorded")
	}
	for _, path := range []string{"/api", "/apis"} {
		doc, why, ok := m.Document(path)
		if !ok {
			return fmt.Errorf("%s is not recorded: %s", path, why)
		}
		is, err := m.Read(doc)
		if err != nil {
			return err
		}
		want, err := w.served(path, doc.Type)
		if err != nil {
			return err
		}
		if !bytes.Equal(is, want) {
			return fmt.Errorf("%s is recorded as %d bytes that are not the %d of the server", path, len(is), len(want))
		}
	}
	return nil
}

// served is what the server answers to GET of a path.
func (w *world) served(path, accept string) ([]byte, error) {
	config := w.server.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, config.Host+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, answer.Status, body)
	}
	return body, errors.Join(err, answer.Body.Close())
}

// count is what has become of writes.
type count struct{ acknowledged, lost, repeated int }

func (c *count) add(d count) {
	c.acknowledged, c.lost, c.repeated = c.acknowledged+d.acknowledged, c.lost+d.lost, c.repeated+d.repeated
}

// tally counts how many acknowledged writes are told of, not at all, and again.
func (w *world) tally() count {
	t := workload.Count(w.lines, w.ledger.Writes())
	return count{len(w.ledger.Writes()), t.Lost, t.Repeated}
}

// kill ends a run that did what it should.
func (r *run) kill(ctx context.Context) error {
	if err := r.Signal(unix.SIGKILL); err != nil {
		return err
	}
	_, err := r.end(ctx)
	return err
}

// stop ends a run by SIGTERM, which must be clean.
func (r *run) stop(ctx context.Context) error {
	if err := r.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	status, err := r.end(ctx)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d after SIGTERM", status)
	}
	return err
}
