package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// inform is the baseline's process: what one would write by hand, a dynamic informer that writes each object as a line
// of JSON. It tells on stdout when it has written all, and waits to be ended.
func inform(ctx context.Context, args []string, stdout io.Writer) error {
	f := flag.NewFlagSet(roleInform, flag.ContinueOnError)
	kubeconfig := f.String("kubeconfig", "", "where the server is")
	objects := f.Int("objects", 0, "how many objects there are")
	if err := f.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	// What package dynamicinformer makes of a client, without the modules that it needs beside.
	all := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, o)
		},
		WatchFuncWithContext: all.Watch,
	}, client)
	informer := cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	written := make(chan error, 1)
	n, lines := 0, json.NewEncoder(io.Discard)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		err := lines.Encode(o)
		if n++; err != nil || n == *objects {
			select {
			case written <- err:
			default:
			}
		}
	}})
	if err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return errors.New("informer did not sync")
	}
	select {
	case err := <-written:
		if err != nil {
			return fmt.Errorf("write object: %w", err)
		}
	case <-time.After(time.Minute):
		return errors.New("informer did not show all objects")
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Fprintln(stdout, "written")
	<-ctx.Done()
	return nil
}
