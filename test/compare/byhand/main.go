// Command byhand writes the changes of all config maps to a file, in the ways that one would write in an afternoon.
//
//	byhand informer FILE    a dynamic informer whose handler marshals each event
//	byhand reflector FILE   a client-go Reflector with a store that marshals each event and keeps nothing
//	byhand raw FILE         the response of one watch copied as it comes, from the server's present version: no JSON
//	                        is looked at, no connection made again. It is the physical limit, not a way to keep a
//	                        journal.
//
// Each event is one write, so that nothing stays in a buffer when the process is killed. None keeps a position.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "byhand:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	ways := map[string]func(context.Context, *rest.Config, *os.File) error{"informer": informer,
		"reflector": reflector, "raw": raw}
	if len(args) != 2 || ways[args[0]] == nil {
		return errors.New("usage: byhand informer|reflector|raw FILE")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	out, err := os.OpenFile(args[1], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open output: %w", err)
	}
	return errors.Join(ways[args[0]](ctx, config, out), out.Close())
}

func informer(ctx context.Context, config *rest.Config, out *os.File) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	lines := store{out}
	shared := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(configMaps).Informer()
	if _, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { report(lines.Add(o)) },
		UpdateFunc: func(_, o any) { report(lines.Update(o)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			report(lines.Delete(o))
		},
	}); err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	shared.RunWithContext(ctx)
	return nil
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "byhand:", err)
	}
}

func reflector(ctx context.Context, config *rest.Config, out *os.File) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	resource := client.Resource(configMaps)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}
	cache.NewReflector(source, &unstructured.Unstructured{}, store{out}, 0).RunWithContext(ctx)
	return nil
}

// store is what a Reflector feeds: it writes, and keeps nothing.
type store struct{ out *os.File }

func (s store) Add(o any) error    { return s.write(watch.Added, o) }
func (s store) Update(o any) error { return s.write(watch.Modified, o) }
func (s store) Delete(o any) error { return s.write(watch.Deleted, o) }
func (store) Resync() error        { return nil }

// Replace is given a whole list. Without a memory all of it is new.
func (s store) Replace(list []any, _ string) error {
	for _, o := range list {
		if err := s.Add(o); err != nil {
			return err
		}
	}
	return nil
}

func (s store) write(t watch.EventType, o any) error {
	line, err := json.Marshal(map[string]any{"type": t, "object": o})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	_, err = s.out.Write(append(line, '\n'))
	return err
}

func raw(ctx context.Context, config *rest.Config, out *os.File) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	list, err := client.Resource(configMaps).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("ask for version: %w", err)
	}
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	url := config.Host + "/api/v1/configmaps?watch=true&resourceVersion=" + list.GetResourceVersion()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := plain.Do(request)
	if err != nil {
		return err // names method and URL itself
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watch config maps: %s", response.Status)
	}
	// Not *os.File's own ReadFrom, which would splice and so copy nothing.
	_, err = io.Copy(struct{ io.Writer }{out}, response.Body)
	return err
}
