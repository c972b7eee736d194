package baseline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"kubejournal/test/bench/canned"
)

func TestMain(m *testing.M) {
	served, err := canned.Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !served {
		os.Exit(m.Run())
	}
}

// TestWays makes sure that every way writes what the others do.
func TestWays(t *testing.T) {
	const events = 40
	kind, err := canned.Find("pod-2KB")
	if err != nil {
		t.Fatal(err)
	}
	server, err := canned.Start(canned.Load{Kind: kind.Name, Objects: 7, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, way := range map[string]func(context.Context, Watch, io.Writer) error{
		"raw": Raw, "informer": Informer, "reflector": Reflector,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			var out bytes.Buffer
			w := Watch{Config: &rest.Config{Host: server.URL, QPS: -1}, Resource: kind.Resource, From: "1000", Events: events}
			if err := way(ctx, w, &out); err != nil {
				t.Fatal(err)
			}
			n := 0
			for line := range bytes.Lines(out.Bytes()) {
				type object struct {
					Kind     string
					Metadata struct{ ResourceVersion string }
				}
				var e struct {
					object
					Object *object
				}
				if err := json.Unmarshal(line, &e); err != nil {
					t.Fatalf("%v in %.200s", err, line)
				}
				if e.Object == nil {
					e.Object = &e.object
				}
				if got, want := e.Object.Metadata.ResourceVersion, fmt.Sprint(1001+n); e.Object.Kind != "Pod" || got != want {
					t.Fatalf("line %d is of %s %s, want version %s", n, e.Object.Kind, got, want)
				}
				n++
			}
			if n != events {
				t.Errorf("%d lines, want %d", n, events)
			}
		})
	}
}
