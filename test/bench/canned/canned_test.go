package canned

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	served, err := Serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !served {
		os.Exit(m.Run())
	}
}

// TestServer reads the events of each kind, from a process of its own.
func TestServer(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			s, err := Start(Load{Kind: kind.Name, Objects: 3, Events: 7})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			response, err := http.Get(s.URL + "/api/v1/" + kind.Resource.Resource + "?watch=true")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			names, last := map[string]bool{}, 0
			for line := range bytes.Lines(body) {
				var e struct {
					Type   string
					Object struct {
						Kind     string
						Metadata struct {
							Name            string
							ResourceVersion json.Number
							ManagedFields   []any
						}
					}
				}
				if err := json.Unmarshal(line, &e); err != nil {
					t.Fatalf("%v in %.200s", err, line)
				}
				version, err := e.Object.Metadata.ResourceVersion.Int64()
				if err != nil || int(version) != firstVersion+last {
					t.Errorf("event %d has version %s", last, e.Object.Metadata.ResourceVersion)
				}
				want := "MODIFIED"
				if last < 3 {
					want = "ADDED"
				}
				if e.Type != want || e.Object.Kind != kind.Kind || len(e.Object.Metadata.ManagedFields) == 0 {
					t.Errorf("event %d: %.200s", last, line)
				}
				names[e.Object.Metadata.Name] = true
				last++
			}
			if last != 7 || len(names) != 3 {
				t.Errorf("%d events of %d objects, want 7 of 3", last, len(names))
			}
		})
	}
}

// TestPace looks at the stamps of events that are sent one by one.
func TestPace(t *testing.T) {
	s, err := Start(Load{Kind: "pod-2KB", Objects: 1, Events: 5, Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	response, err := http.Get(s.URL + "/api/v1/pods?watch=true&sendInitialEvents=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	in := bufio.NewReader(response.Body)
	if line, err := in.ReadString('\n'); err != nil || !bytes.Contains([]byte(line), []byte("initial-events-end")) {
		t.Fatalf("first line %q, %v", line, err)
	}
	before := began
	for i := range 5 {
		line, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		sent, ok := Sent(line)
		if !ok || sent.Before(before) || sent.After(time.Now()) {
			t.Errorf("event %d was sent at %s (%t)", i, sent, ok)
		}
		before = sent
	}
}

func TestFaultyLoad(t *testing.T) {
	for _, load := range []Load{{Kind: "pod-3KB", Objects: 1, Events: 1}, {Kind: "pod-2KB", Events: 1}, {Kind: "pod-2KB", Objects: 1}} {
		if _, _, err := load.stream(); err == nil {
			t.Errorf("%+v has a stream", load)
		}
	}
}
