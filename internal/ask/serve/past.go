package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv2 "k8s.io/api/apidiscovery/v2"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/format/line"
)

// source opens a cluster's journals, and opens them again where a daemon may have written to them since.
type source struct {
	paths  []string
	notice func(string)
	faults sync.Map // texts that notice has got of the API server's documents

	mu     sync.Mutex
	follow bool  // answer with lines that came after the journals were opened; guarded by mu
	now    *past // guarded by mu
	closed bool
}

// past is the journals as they were opened at one time.
type past struct {
	mu   sync.Mutex        // a Journal is for one goroutine
	j    *question.Journal // guarded by mu
	api  apis              // of a moment that does not move; guarded by mu
	of   *served           // the moment of api, nil before; guarded by mu
	rows rows

	lists []*objects          // of the last questions; guarded by mu
	defs  map[uint64]*defined // CustomResourceDefinitions by the seq of their lines, nil for a faulty one; under mu

	documents []*apidocs.Documents                               // of each journal that has some; guarded by mu
	discovery map[apidocs.Sum]*discoveryv2.APIGroupDiscoveryList // those that were read; guarded by mu
	fault     func(error)

	users  int           // guarded by source.mu; 1 for the source itself
	opened time.Time     // when that was
	took   time.Duration // to open it, and to index what has no index
	size   int64         // of the active file then
}

// fresh is how old an opened journal is before it is opened again: at least this, and no less than reopening times what
// opening takes.
const (
	fresh     = time.Second
	reopening = 10
)

// open returns the journals to ask, which release gives back. again says that a file of those before was not there.
func (s *source) open(ctx context.Context, again bool) (*past, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the server is stopping")
	}
	if s.now == nil || again || s.follow && s.now.stale(s.paths) {
		p, err := s.opened(ctx)
		if err != nil {
			return nil, err
		}
		s.drop()
		s.now = p
	}
	s.now.users++
	return s.now, nil
}

// stale reports whether there may be something new, and it is not too early to look.
func (p *past) stale(paths []string) bool {
	age := time.Since(p.opened)
	if age < max(fresh, reopening*p.took) {
		return false
	}
	return p.size != activeSize(paths) || age > 5*fresh // coverage grows too
}

func activeSize(paths []string) int64 {
	info, err := os.Stat(paths[0])
	if err != nil {
		return -1
	}
	return info.Size()
}

// opened opens the journals. s.mu is held.
func (s *source) opened(ctx context.Context) (*past, error) {
	begun := time.Now()
	p := &past{
		users: 1, size: activeSize(s.paths), defs: map[uint64]*defined{},
		discovery: map[apidocs.Sum]*discoveryv2.APIGroupDiscoveryList{}, fault: s.fault,
	}
	j, err := archive.OpenAll(ctx, s.paths, &argument.Selection{}, archive.AllLines, s.notice)
	if err != nil {
		return nil, err
	}
	if j.Empty() {
		j.Close()
		return nil, fmt.Errorf("journal %s has no line yet", s.paths[0])
	}
	p.j = question.Of(j)
	if _, err := archive.Again(j, func() (bool, error) {
		_, err := j.Newest(ctx)
		return true, err
	}); err != nil {
		j.Close()
		return nil, err
	}
	p.documents = s.openDocuments()
	p.opened, p.took = time.Now(), time.Since(begun)
	return p, nil
}

// moved opens the journals for a moment, and returns that. Of several journals, which are merged once, the latest is
// the moment of the merge.
func (s *source) moved(ctx context.Context, to *served) (*served, error) {
	if to.at.IsLatest() && len(s.paths) > 1 {
		to = newServed(argument.Moment{Time: time.Now()}, 0)
	}
	p, err := s.open(ctx, true)
	if err != nil {
		return to, err
	}
	s.release(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow = to.at.IsLatest()
	return to, nil
}

// release gives journals back. They are closed once nobody asks them any more.
func (s *source) release(p *past) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.leave()
}

// leave gives up one use, and closes the journals with the last. source.mu is held.
func (p *past) leave() {
	if p.users--; p.users == 0 {
		p.j.Close()
		for _, d := range p.documents {
			d.Close()
		}
	}
}

// drop lets go of the journals. s.mu is held.
func (s *source) drop() {
	if s.now != nil {
		s.now.leave()
		s.now = nil
	}
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop()
}

// ask calls fn with the journals, and once more with the journals as they are then if one of their files was removed.
func (s *source) ask(ctx context.Context, fn func(*past) error) error {
	for again := false; ; again = true {
		p, err := s.open(ctx, again)
		if err != nil {
			return err
		}
		err = s.with(p, fn)
		if again || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// with calls fn with journals, and gives them back however it ends.
func (s *source) with(p *past, fn func(*past) error) error {
	defer s.release(p)
	return fn(p)
}

// objects are the selected ones at a moment, each once, in the order in which a Kubernetes API server lists them: that
// of its keys. They are not to be changed.
type objects struct {
	of     string // question
	items  []question.Item
	gone   int // that were there too, and of which no line is left
	doubts []question.Doubt
}

// maxObjects is how many questions are kept with their answers: clients read a list page by page.
const maxObjects = 4

// objects returns the selected objects at a moment. A selection names a resource, and may name an object and a
// namespace.
func (p *past) objects(
	ctx context.Context, s *argument.Selection, at argument.Moment, namespaced bool,
) (*objects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := fmt.Sprintf("%#v %q %s", s.Objects, s.Namespaces, at.Text())
	for _, o := range p.lists {
		if o.of == of {
			return o, nil
		}
	}
	st, err := p.j.State(ctx, s, at)
	if err != nil {
		return nil, err
	}
	o := &objects{of: of, items: st.Items[:0], doubts: st.Doubts}
	for _, i := range st.Items {
		switch {
		case i.Gone:
			o.gone++
		case !namespaced || i.Namespace != "":
			o.items = append(o.items, i)
		}
	}
	slices.SortFunc(o.items, func(a, b question.Item) int { return strings.Compare(keyOf(&a), keyOf(&b)) })
	o.items = slices.CompactFunc(o.items, func(a, b question.Item) bool { return keyOf(&a) == keyOf(&b) })
	if !at.IsLatest() { // which is another one the next time
		p.lists = append(p.lists, o)
		p.lists = p.lists[max(len(p.lists)-maxObjects, 0):]
	}
	return o, nil
}

func (p *past) position(ctx context.Context, s *argument.Selection, at argument.Moment) (*question.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pos, err := p.j.Position(ctx, s, at)
	if err == nil && pos.Version == "" {
		pos.Version = "1" // of what nobody watched: clients take none for a fault
	}
	return pos, err
}

// read calls fn with the lines of items, from several goroutines at once.
func (p *past) read(ctx context.Context, items []question.Item, fn func(i int, l *line.Fields) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.j.Read(ctx, items, fn)
}

// describe sets the sizes of items' lines.
func (p *past) describe(ctx context.Context, items []question.Item) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.j.Describe(ctx, items)
}
