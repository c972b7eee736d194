package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// Status is what /status answers: how the daemon is doing, in one document. Fields are only ever added.
type Status struct {
	Version string        `json:"version"`
	Commit  string        `json:"commit"`
	Started time.Time     `json:"started"`
	Ready   bool          `json:"ready"`
	Checks  []CheckResult `json:"checks"`
	Streams []Stream      `json:"streams"`

	Server     string      `json:"server,omitempty"`
	Outage     *Outage     `json:"outage,omitempty"`
	Config     string      `json:"config,omitempty"`
	Journal    *Journal    `json:"journal,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Election   *Election   `json:"leaderElection,omitempty"`
	Audit      *Audit      `json:"audit,omitempty"`
}

// Outage is why most streams fail at once.
type Outage struct {
	Since    time.Time `json:"since"`
	Streams  int       `json:"streams"`  // that fail
	Attempts int       `json:"attempts"` // that have failed
	Reason   string    `json:"reason"`   // as a stream has it
	Error    string    `json:"error"`
	Refused  bool      `json:"refused,omitempty"` // the server answers, and refuses this daemon
}

// Journal is how far the output reaches.
type Journal struct {
	Path     string    `json:"path"` // absolute; "-" is stdout
	Oldest   time.Time `json:"oldest,omitzero"`
	Seq      uint64    `json:"seq"`
	Segments int       `json:"segments,omitempty"`
	Space
}

// Checkpoint is where the positions are kept.
type Checkpoint struct {
	Path string `json:"path"` // absolute; "" is a temporary file
	Space
}

// Audit is how far the audit logs are followed.
type Audit struct {
	Files   int               `json:"files"`            // that audit.paths match
	Events  int               `json:"events"`           // that were read
	Damaged int               `json:"damaged"`          // lines that cannot be read
	Lines   map[string]uint64 `json:"lines"`            // whose users were written, by how they are known
	Decided time.Time         `json:"decided,omitzero"` // up to here
	Error   string            `json:"error,omitempty"`  // of the last round
}

// Stream is one entry of /streams, and of streams in /status.
type Stream struct {
	Stream string `json:"stream"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// the objects that the server cannot list, the first of them by name
	Unreadable      string    `json:"unreadable,omitempty"`
	DidYouMean      string    `json:"didYouMean,omitempty"`  // the resource that a pending name may be a misspelling of
	Unreachable     bool      `json:"unreachable,omitempty"` // it fails because of the outage
	Since           time.Time `json:"since,omitzero"`        // in this state
	FailingSince    time.Time `json:"failingSince,omitzero"` // no session has worked
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Synced          bool      `json:"synced"`
	LastProgress    time.Time `json:"lastProgress,omitzero"`
	Idle            float64   `json:"idleSeconds"` // age of the last progress, or of the state where there was none
	LastGap         time.Time `json:"lastGap,omitzero"`
	Events          uint64    `json:"events"`                    // lines written since the stream was started
	Rate            *float64  `json:"eventsPerSecond,omitempty"` // mean of the last minute; nil in the first seconds
}

// AwaitsCRD reports whether the stream is pending until somebody creates its CustomResourceDefinition.
func (s *Stream) AwaitsCRD() bool {
	return streams.AwaitsCRD(s.Stream, s.State, s.Reason)
}

func (s *Site) statusNow() Status {
	about := s.view.Load().about()
	checks, ready := s.runChecks()
	now := Status{
		Version: about.Version, Commit: about.Commit, Started: about.Started.UTC(), Ready: ready, Checks: checks,
		Streams: s.streamsNow(), Server: about.Server, Config: about.Config, Election: about.Election,
	}
	if o := about.Outage; !o.Since.IsZero() {
		now.Outage = &Outage{o.Since.UTC(), o.Streams, o.Attempts, o.Reason, o.Error, o.Refused}
	}
	if is := about.Journal; about.Output != "" {
		now.Journal = &Journal{about.Output, is.Oldest.UTC(), is.Seq, is.Segments, about.OutputSpace}
	}
	if a := about.Audit; a != nil {
		now.Audit = &Audit{a.Files, a.Events, a.Damaged, a.Lines, a.Decided.UTC(), a.Err}
	}
	now.Checkpoint = &Checkpoint{about.Checkpoint, about.CheckpointSpace}
	return now
}

func (s *Site) streamsNow() []Stream {
	out := []Stream{}
	_, recent := s.rates.read()
	now := time.Now()
	for _, s := range s.rates.streams() {
		one := Stream{
			Stream: s.Name, State: string(s.State), Reason: s.Reason, Unreadable: s.Unreadable, DidYouMean: s.Near,
			Unreachable: s.Unreachable, Since: s.Since.UTC(), ResourceVersion: s.Position, Synced: s.Synced,
			LastProgress: s.LastProgress.UTC(), Idle: float64(s.Idle(now).Milliseconds()) / 1000,
			LastGap: s.LastGap.UTC(), Events: s.Lines,
		}
		if s.State != watcher.Watching {
			one.FailingSince = s.Failing.UTC()
		}
		if rate, ok := recent[s.Name].rate(); ok {
			one.Rate = &rate
		}
		out = append(out, one)
	}
	return out
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client went away: nobody to report to
}

const (
	clientTimeout = 5 * time.Second // for the daemon to answer
	maxResponse   = 64 << 20        // bytes read of one response
)

// FetchStatus asks the daemon at address, host:port, for its /status.
func FetchStatus(ctx context.Context, address string) (*Status, error) {
	body, err := Fetch(ctx, address, "/status")
	if err != nil {
		return nil, err
	}
	s := new(Status)
	if err := json.Unmarshal(body, s); err != nil || s.Version == "" || s.Checks == nil || s.Streams == nil {
		return nil, fmt.Errorf("%s is not a kubejournal daemon, or one of another version: its /status lacks "+
			"version, checks or streams; name another address with --address HOST:PORT", address)
	}
	return s, nil
}

// Fetch returns the body of what the daemon at address answers for path. The error names the address and the remedy.
func Fetch(ctx context.Context, address, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: clientTimeout}
	response, err := client.Do(request)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // the rest is the address again
		}
		return nil, fmt.Errorf("no kubejournal answers at %s: %w; is it running, and does it listen there? name "+
			"another address with --address HOST:PORT", address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", address, err)
	}
	switch {
	case response.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s is not a kubejournal daemon, or one older than this command: %s to %s; name "+
			"another address with --address HOST:PORT", address, response.Status, path)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s is not a kubejournal daemon: %s to %s; name another address with --address "+
			"HOST:PORT", address, response.Status, path)
	}
	return body, nil
}

// Reach returns where to ask a daemon that listens on an address, as in the config's listen.
func Reach(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("%q is no address and port; write 127.0.0.1:8080", listen)
	}
	if port == "0" {
		return "", fmt.Errorf("%q is any free port; the daemon's log says which it took: name it with --address HOST:PORT",
			listen)
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
