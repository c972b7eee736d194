// Package baseline reads a watch in the ways that kubejournal is compared with.
//
//	Raw        the response's bytes copied to a file with net/http: the physical limit
//	Informer   a dynamic informer whose handler marshals each object to a buffered file,
//	           as one would write by hand
//	Reflector  a client-go Reflector likewise, with a store that keeps nothing
//
// None of them keeps a position, and none writes anything but the objects.
// Informer and Reflector are given an empty list at the version where they are
// to begin, and so see history that a list of their own would have skipped; the
// rest is what package dynamicinformer does.
package baseline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// outBuffer is what the hand-written ways buffer before they write, in bytes.
const outBuffer = 64 << 10

// Watch is what to read.
type Watch struct {
	Config   *rest.Config
	Resource schema.GroupVersionResource
	From     string // version before the first event
	Events   int    // how many Informer and Reflector write before they return
}

// Raw copies the response to out until the server or ctx ends it.
func Raw(ctx context.Context, w Watch, out io.Writer) error {
	client, err := rest.HTTPClientFor(w.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.CloseIdleConnections()
	path := "/apis/" + w.Resource.Group + "/"
	if w.Resource.Group == "" {
		path = "/api/"
	}
	url := w.Config.Host + path + w.Resource.Version + "/" + w.Resource.Resource +
		"?watch=true&allowWatchBookmarks=true&resourceVersion=" + w.From
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err // names method and URL itself
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watch %s: %s", url, response.Status)
	}
	// Not *os.File's own ReadFrom, which would splice and so copy nothing.
	_, err = io.Copy(struct{ io.Writer }{out}, response.Body)
	return err
}

// Informer writes each object of w.Events events to out as a line.
func Informer(ctx context.Context, w Watch, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lister, err := newLister(ctx, w)
	if err != nil {
		return err
	}
	l := newLines(out, w.Events, cancel)
	informer := cache.NewSharedIndexInformer(lister, &unstructured.Unstructured{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { l.write(o) },
		UpdateFunc: func(_, o any) { l.write(o) },
		DeleteFunc: func(o any) { l.write(o) },
	}); err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	informer.Run(ctx.Done())
	return l.end()
}

// Reflector writes each object of w.Events events to out as a line.
func Reflector(ctx context.Context, w Watch, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lister, err := newLister(ctx, w)
	if err != nil {
		return err
	}
	l := newLines(out, w.Events, cancel)
	cache.NewReflector(lister, &unstructured.Unstructured{}, store{l}, 0).Run(ctx.Done())
	return l.end()
}

// store is what a Reflector feeds.
type store struct{ *lines }

func (s store) Add(o any) error           { return s.write(o) }
func (s store) Update(o any) error        { return s.write(o) }
func (s store) Delete(o any) error        { return s.write(o) }
func (store) Replace([]any, string) error { return nil }
func (store) Resync() error               { return nil }

// lister answers every list with nothing, at the version to begin from.
type lister struct {
	ctx      context.Context // a ListerWatcher is not given one
	resource dynamic.ResourceInterface
	from     string
}

func newLister(ctx context.Context, w Watch) (*lister, error) {
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &lister{ctx, client.Resource(w.Resource), w.From}, nil
}

// List implements cache.ListerWatcher.
func (l *lister) List(metav1.ListOptions) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(l.from)
	return list, nil
}

// Watch implements cache.ListerWatcher.
func (l *lister) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.resource.Watch(l.ctx, o)
}

// IsWatchListSemanticsUnSupported keeps client-go from asking for a list in the
// watch.
func (l *lister) IsWatchListSemanticsUnSupported() bool { return true }

// lines writes objects until there were enough of them.
type lines struct {
	mu   sync.Mutex
	out  *bufio.Writer
	left int
	stop context.CancelFunc
	err  error
}

func newLines(out io.Writer, events int, stop context.CancelFunc) *lines {
	return &lines{out: bufio.NewWriterSize(out, outBuffer), left: events, stop: stop}
}

func (l *lines) write(o any) error {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return l.add(nil, fmt.Errorf("write object: it is a %T", o))
	}
	line, err := json.Marshal(u.Object)
	return l.add(line, err)
}

func (l *lines) add(line []byte, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left <= 0 {
		return nil
	}
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if l.err = errors.Join(l.err, err); l.err != nil {
		l.left = 0
		l.stop()
		return l.err
	}
	if l.left--; l.left == 0 {
		l.stop()
	}
	return nil
}

// end flushes, and tells what went wrong on the way.
func (l *lines) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.err, l.out.Flush())
	if err == nil && l.left > 0 {
		err = fmt.Errorf("write objects: %d were missing at the end", l.left)
	}
	return err
}

// Patience is how long a benchmark waits for a reader before it fails.
const Patience = 3 * time.Minute
