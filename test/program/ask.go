package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// States of a stream, as /streams has them.
const (
	Pending  = "Pending"
	Watching = "Watching"
)

// Stream is what /streams says of a stream, or of an entry of the config that is pending.
type Stream struct{ Stream, State, Reason string }

// Listening finds the address of the HTTP server in a log, "" if it is not there.
func Listening(log []byte) string {
	for line := range bytes.Lines(log) {
		var entry struct{ Msg, Address string }
		if bytes.Contains(line, []byte("listening")) && json.Unmarshal(line, &entry) == nil &&
			entry.Msg == "listening" {
			return entry.Address
		}
	}
	return ""
}

// Get asks an HTTP server at HOST:PORT, over a connection of its own.
func Get(ctx context.Context, address, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", fmt.Errorf("get %s: %w", path, err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err // names method and URL itself
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("get %s: %w", path, err)
	}
	return response.StatusCode, string(content), nil
}

// Metrics are the samples of a page of metrics by their names with their labels.
func Metrics(page string) (map[string]float64, error) {
	all := make(map[string]float64)
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		all[line[:i]] = v
	}
	return all, nil
}

// Address is where the daemon listens. It is an error if it does not yet.
func (p *Process) Address() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address == "" {
		log, err := p.Log()
		if err != nil {
			return "", err
		}
		if p.address = Listening(log); p.address == "" {
			return "", errors.New("not listening yet")
		}
	}
	return p.address, nil
}

// Get asks the daemon's HTTP server. An error is final if the daemon has ended.
func (p *Process) Get(ctx context.Context, path string) (status int, body string, err error) {
	address, err := p.Address()
	if err == nil {
		status, body, err = Get(ctx, address, path)
	}
	if err != nil && !p.Alive() {
		err = Final(p.Fault(ErrEnded))
	}
	return status, body, err
}

// Page is Get for an answer that must be 200.
func (p *Process) Page(ctx context.Context, path string) (string, error) {
	status, body, err := p.Get(ctx, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, status, body)
	}
	return body, err
}

// Ready returns nil once the daemon is ready.
func (p *Process) Ready(ctx context.Context) error {
	_, err := p.Page(ctx, "/readyz")
	return err
}

// Streams returns the daemon's streams, and the entries that are pending.
func (p *Process) Streams(ctx context.Context) (streams []Stream, err error) {
	body, err := p.Page(ctx, "/streams")
	if err == nil {
		err = json.Unmarshal([]byte(body), &streams)
	}
	return streams, err
}

// Leads reports whether the daemon says that it is the one of several replicas that writes.
func (p *Process) Leads(ctx context.Context) (bool, error) {
	all, err := p.Metrics(ctx)
	for name, value := range all {
		if strings.HasPrefix(name, "kubejournal_leader{") {
			return value == 1, err
		}
	}
	return false, err
}

// Metrics returns the daemon's metrics.
func (p *Process) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := p.Page(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return Metrics(body)
}
