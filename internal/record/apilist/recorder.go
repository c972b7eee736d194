// Package apilist records what the API server serves, discovery and OpenAPI, each time it changes: see package apidocs.
//
// The server is asked every minute, and when custom resources have changed: four requests, which an unchanged server
// answers with 304 but for the index of OpenAPI v3, of 10 kB. If something has changed, it is asked for what has, and
// again until what it serves stays the same. No line waits for any of this, and no failure here is one of the
// recording.
package apilist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/client"
)

const (
	askEvery = time.Minute
	// askAgain is how soon the server is asked again once something has changed: what belongs to a change does not all
	// come at once. While it goes on changing that doubles, up to askEvery: who may add an API cannot keep the daemon
	// or the server busy.
	askAgain = 2 * time.Second
	calm     = time.Minute // without a change, after which the next one is seen as soon again
	// attempts is how often in a round what the server serves may change before it is recorded as it is.
	attempts  = 3
	tidyEvery = time.Hour
)

const (
	jsonType   = "application/json"
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	discoveryList = "as=APIGroupDiscoveryList"

	indexPath = "/openapi/v3"
)

// entries are the documents that are asked for in each round: those that say whether anything has changed.
var entries = []struct{ path, accept string }{
	{"/api", aggregated}, {"/apis", aggregated}, {indexPath, jsonType}, {"/openapi/v2", jsonType},
}

// Server is the API server.
type Server interface {
	Document(ctx context.Context, path, hash, accept, etag string) (*client.Document, error)
	// Confirm returns an error where another cluster answers.
	Confirm(ctx context.Context) error
}

// Config is what a Recorder needs.
type Config struct {
	Server  Server
	Journal string           // path of its active file
	Oldest  func() time.Time // of its lines; zero where that is not known
	Disk    disk.FS          // nil is the real one
	Log     *zap.Logger
	Failed  func() // is called with each failure
}

// Recorder records what one server serves.
type Recorder struct {
	Config
	changed chan struct{} // holds one

	file   *apidocs.Writer // nil until it is opened
	held   map[string]held // what the server served last, by path
	tidied time.Time
	fault  string // that was logged last; "" after a success
	lacks  string // what the server does not show, as it was logged last
}

// held is a document as it was served last.
type held struct {
	apidocs.Document
	hash   string // of its name in the index
	reason string // why it is not recorded; "" if it is
}

// New returns a recorder that has not asked anything.
func New(c Config) *Recorder { return &Recorder{Config: c, changed: make(chan struct{}, 1)} }

// Changed has the server asked soon: what it serves may have changed. Safe for concurrent use.
func (r *Recorder) Changed() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	defer func() { _ = r.file.Close() }() // it is synced, and what follows claims less
	var last time.Time                    // of a change
	least, pause := askAgain, askAgain    // until the next round, with Changed and without
	for {
		changed, err := r.round(ctx)
		if ctx.Err() != nil {
			return
		}
		r.note(err)
		now := time.Now()
		switch {
		case now.Sub(last) > calm+least:
			least = askAgain
		case changed:
			least = min(2*least, askEvery)
		}
		if pause = min(2*pause, askEvery); changed {
			pause, last = least, now
		}
		if !r.wait(ctx, least, pause) {
			return
		}
	}
}

// wait waits for the next round, and reports whether there is one.
func (r *Recorder) wait(ctx context.Context, least, pause time.Duration) bool {
	if !client.Sleep(ctx, least) {
		return false
	}
	next := time.NewTimer(pause - least)
	defer next.Stop()
	select {
	case <-next.C:
	case <-r.changed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// note logs a failure once, and counts it. That the server cannot be reached is logged and counted elsewhere.
func (r *Recorder) note(err error) {
	if unreachable, _ := client.IsUnreachable(err); err != nil && unreachable {
		return
	}
	switch {
	case err == nil && r.fault != "":
		r.Log.Info("what the API server serves is recorded again")
		r.fault = ""
	case err != nil && r.fault == "":
		r.fault = err.Error()
		remedy := "; no line is affected"
		if errors.Is(err, apidocs.ErrForeign) || errors.Is(err, apidocs.ErrNewer) {
			remedy = "; move the file away"
		}
		r.Log.Error("what the API server serves cannot be recorded, trying again"+remedy, zap.Error(err))
	}
	if err != nil {
		r.Failed()
	}
}

// round asks the server, records what it serves, and reports whether that has changed.
func (r *Recorder) round(ctx context.Context) (changed bool, err error) {
	defer func() {
		if err != nil && r.file != nil { // what is on disk is to be found out
			_ = r.file.Close()
			r.file = nil
		}
	}()
	if err := r.open(); err != nil {
		return false, err
	}
	for n := 0; ; n++ {
		at := time.Now()
		now, err := r.ask(ctx)
		if err != nil {
			return n > 0, err
		}
		same := maps.Equal(now, r.held)
		r.held = now
		if !same && n < attempts {
			continue // until it was the same before at and after it
		}
		if !same {
			at = time.Now()
		}
		if n > 0 {
			r.logMissing()
			if err := r.Server.Confirm(ctx); err != nil {
				return true, err
			}
		}
		return n > 0, r.file.Record(r.manifest(), at)
	}
}

// open opens the file where it is not open, and tidies it now and then.
func (r *Recorder) open() (err error) {
	if r.file == nil {
		if r.file, err = apidocs.OpenWriter(r.Disk, r.Journal); err != nil {
			return err
		}
		if r.file.Damaged != nil {
			r.Log.Warn("a part of the record of what the API server served is damaged, and lost",
				zap.Error(r.file.Damaged))
		}
		r.held = make(map[string]held)
		for _, d := range r.file.Last().Documents {
			h := held{Document: d}
			if strings.HasPrefix(d.Path, indexPath+"/") {
				h.hash = strings.Trim(d.ETag, `"`)
			}
			r.held[d.Path] = h
		}
	}
	if time.Since(r.tidied) < tidyEvery {
		return nil
	}
	r.tidied = time.Now()
	return r.file.Tidy(r.Oldest())
}

// ask returns what the server serves. Of what has not changed since, nothing is read again.
func (r *Recorder) ask(ctx context.Context) (map[string]held, error) {
	now := make(map[string]held)
	var index bytes.Buffer
	same := true
	for _, e := range entries {
		into := io.Discard
		if e.path == indexPath {
			into = &index
		}
		h, err := r.fetch(ctx, e.path, "", e.accept, into)
		if err != nil {
			return nil, err
		}
		now[e.path] = h
		same = same && h == r.held[e.path]
	}
	hashes, err := parseIndex(index.Bytes())
	if err != nil && now[indexPath].reason == "" {
		now[indexPath] = missing(indexPath, "", "it is no index of OpenAPI v3")
	}
	hashes["/version"] = "" // which changes with OpenAPI
	for path, hash := range hashes {
		h, is := r.held[path]
		if !is || h.hash != hash || h.reason != "" && h.ETag == "" || hash == "" && !same {
			if h, err = r.fetch(ctx, path, hash, jsonType, io.Discard); err != nil {
				return nil, err
			}
		}
		now[path] = h
	}
	return now, nil
}

// parseIndex returns the paths of the documents of OpenAPI v3, and their hashes.
func parseIndex(b []byte) (map[string]string, error) {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	hashes := make(map[string]string)
	if err := json.Unmarshal(b, &index); err != nil {
		return hashes, err
	}
	for name, of := range index.Paths {
		if u, err := url.Parse(of.URL); err == nil {
			hashes[indexPath+"/"+name] = u.Query().Get("hash")
		}
	}
	return hashes, nil
}

// source is a document that is read, and why it could not be.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func missing(path, hash, reason string) held {
	return held{apidocs.Document{Path: path}, hash, reason}
}

// fetch asks for a document, stores it, and writes it to also. Where the server still has the one from before, it
// returns that.
func (r *Recorder) fetch(ctx context.Context, path, hash, accept string, also io.Writer) (held, error) {
	old := r.held[path]
	etag := old.ETag
	if path == indexPath {
		etag = "" // its content is needed
	}
	d, err := r.Server.Document(ctx, path, hash, accept, etag)
	switch {
	case err != nil:
		return lacking(path, hash, err)
	case d == nil:
		old.hash = hash
		return old, nil
	}
	defer d.Close() //nolint:errcheck // it is only read
	if accept == aggregated && !strings.Contains(d.Type, discoveryList) {
		return missing(path, hash, "the server has no aggregated discovery"), nil
	}
	from := &source{Reader: d}
	sum, size, err := r.file.Put(io.TeeReader(from, also))
	switch {
	case from.err != nil:
		return lacking(path, hash, from.err)
	case errors.Is(err, apidocs.ErrTooLarge):
		lost := missing(path, hash, err.Error())
		lost.ETag = d.ETag // it is not read again before it changes
		return lost, nil
	}
	is := apidocs.Document{Path: path, Type: d.Type, ETag: d.ETag, Size: size, Sum: sum}
	return held{Document: is, hash: hash}, err
}

// lacking is a document that the server does not show, or the error where that says nothing about the document: it is
// not asked for the others then.
func lacking(path, hash string, err error) (held, error) {
	code := client.StatusCode(err)
	required := slices.Contains([]string{"/api", "/apis", indexPath}, path)
	switch {
	case code == http.StatusUnauthorized || code == http.StatusTooManyRequests:
	case code >= http.StatusBadRequest && (code < http.StatusInternalServerError || !required):
		return missing(path, hash, fmt.Sprintf("the server answered %d %s", code, http.StatusText(code))), nil
	case errors.Is(err, client.ErrNoAnswer) && !required:
		return missing(path, hash, "the server did not answer in time"), nil
	}
	return held{}, err
}

// manifest names what the server served last.
func (r *Recorder) manifest() (m apidocs.Manifest) {
	for _, path := range slices.Sorted(maps.Keys(r.held)) {
		if h := r.held[path]; h.reason == "" {
			m.Documents = append(m.Documents, h.Document)
		} else {
			m.Missing = append(m.Missing, apidocs.Missing{Path: path, Reason: h.reason})
		}
	}
	return m
}

// logMissing logs what the server does not show, once.
func (r *Recorder) logMissing() {
	const few = 3
	var lacks []string
	all := r.manifest().Missing
	for _, m := range all[:min(few, len(all))] {
		lacks = append(lacks, m.Path+": "+m.Reason)
	}
	text := strings.Join(lacks, "; ")
	if text != "" && text != r.lacks {
		r.Log.Info("the API server does not show all of what it serves; what is missing is not recorded",
			zap.Int("documents", len(all)), zap.String("reason", text))
	}
	r.lacks = text
}
