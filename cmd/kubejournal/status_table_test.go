package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/record/status"
)

// inOutage is what /status says in the middle of an outage, with a stream that fails by itself and one that waits for its CRD.
const inOutage = `{
  "version": "v1.2.3", "commit": "abc", "started": "2026-11-20T12:00:00Z", "ready": false,
  "checks": [
    {"name": "config", "ok": true}, {"name": "output", "ok": true}, {"name": "checkpoint", "ok": true},
    {"name": "apiserver", "ok": false, "text": "API server unreachable for 1m14s: 3 of 5 streams: dial tcp 10.96.0.1:443: connect: connection refused"},
    {"name": "streams", "ok": true, "text": "no progress: services (failing for 5m0s: Retrying Unauthorized)"}
  ],
  "streams": [
    {"stream": "deployments.apps", "state": "Retrying", "reason": "ConnectionRefused", "unreachable": true, "resourceVersion": "7", "synced": true, "lastProgress": "2026-11-20T13:58:46Z"},
    {"stream": "pods", "state": "Retrying", "reason": "ConnectionRefused", "unreachable": true, "resourceVersion": "8", "synced": true, "lastProgress": "2026-11-20T13:58:46Z", "lastGap": "2026-11-20T12:58:46Z"},
    {"stream": "secrets", "state": "Listing", "reason": "Timeout", "unreachable": true},
    {"stream": "services", "state": "Retrying", "reason": "Unauthorized", "resourceVersion": "6", "synced": true, "lastProgress": "2026-11-20T13:55:00Z"},
    {"stream": "widgets.example.com", "state": "Pending", "reason": "NotFound"},
    {"stream": "widgits.example.com", "state": "Pending", "reason": "NotFound", "didYouMean": "widgets.example.com"}
  ],
  "server": "https://10.96.0.1:443",
  "outage": {"since": "2026-11-20T13:58:46Z", "streams": 3, "attempts": 12, "reason": "ConnectionRefused", "error": "dial tcp 10.96.0.1:443: connect: connection refused"},
  "config": "/etc/kubejournal/kubejournal.yaml",
  "journal": {"path": "/var/lib/kubejournal/journal.jsonl", "oldest": "2026-11-18T12:59:59.5Z", "seq": 1234, "segments": 4, "freeBytes": 812000000000, "sizeBytes": 1000000000000},
  "checkpoint": {"path": "/var/lib/kubejournal/kubejournal.db", "freeBytes": 812000000000, "sizeBytes": 1000000000000}
}`

// ofOlder is what a daemon says that does not have the fields of the outage and of the files.
const ofOlder = `{
  "version": "v0.1.0", "commit": "abc", "started": "2026-11-20T12:00:00Z", "ready": true, "checks": [{"name": "streams", "ok": true}],
  "streams": [{"stream": "pods", "state": "Retrying", "reason": "ConnectionRefused", "resourceVersion": "8", "synced": true, "lastProgress": "2026-11-20T13:58:46Z"}]
}`

// onStdout is what a daemon says that writes to stdout and keeps no checkpoint.
const onStdout = `{
  "version": "v1.2.3", "commit": "abc", "started": "2026-11-20T12:00:00Z", "ready": true, "checks": [{"name": "apiserver", "ok": true}],
  "streams": [{"stream": "podz", "state": "Pending", "reason": "NotFound"}],
  "server": "https://10.96.0.1:443", "journal": {"path": "-", "seq": 0}, "checkpoint": {"path": ""}
}`

func TestStatusTable(t *testing.T) {
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	for name, body := range map[string]string{"outage": inOutage, "older": ofOlder, "stdout": onStdout} {
		s := new(status.Status)
		if err := json.Unmarshal([]byte(body), s); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := s.WriteText(&got, "127.0.0.1:8080", now); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "status-"+name+".txt")
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil { //nolint:gosec // a file of the repository
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
