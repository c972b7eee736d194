package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

// bench is what all runs share.
type bench struct {
	options options
	program string // kubejournal
	self    string // this program
	dir     string
	out     io.Writer // for benchmark lines
	notes   io.Writer // for what continues

	certificate []byte // PEM, its own authority
	client      *http.Client
}

func newBench(ctx context.Context, o options, out, notes io.Writer) (b *bench, err error) {
	b = &bench{options: o, program: o.program, out: out, notes: notes}
	if b.dir, err = os.MkdirTemp(o.dir, "kubejournal-scale-"); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}()
	if b.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if err := b.makeCertificate(); err != nil {
		return nil, err
	}
	if b.program != "" {
		b.program, err = filepath.Abs(b.program)
		return b, err
	}
	b.program, err = program.Build(ctx, b.dir)
	return b, err
}

func (b *bench) close() error {
	if b.options.keep {
		fmt.Fprintln(b.notes, "journals, checkpoints and logs are in", b.dir)
		return nil
	}
	return os.RemoveAll(b.dir)
}

// makeCertificate makes a certificate for loopback. TLS is what a real server speaks, and what HTTP/2 needs.
func (b *bench) makeCertificate() (err error) {
	var key []byte
	if b.certificate, key, err = cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)},
		nil); err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.certificate)
	b.client = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	return errors.Join(
		os.WriteFile(filepath.Join(b.dir, certFile), b.certificate, 0o600),
		os.WriteFile(filepath.Join(b.dir, keyFile), key, 0o600),
	)
}

// line prints a benchmark line: values and units in turn.
func (b *bench) line(name string, values ...any) {
	fmt.Fprintf(b.out, "BenchmarkScale/%s 1", name)
	for i, v := range values {
		if f, ok := v.(float64); ok {
			v = strconv.FormatFloat(f, 'f', 3, 64)
		}
		sep := " "
		if i%2 == 0 {
			sep = "\t"
		}
		fmt.Fprint(b.out, sep, v)
	}
	fmt.Fprintln(b.out)
}

// running is a server that runs.
type running struct {
	*process
	bench   *bench
	address string
	told    *program.Output
}

// serve starts a server in dir, and writes the kubeconfig that leads to it.
func (b *bench) serve(dir string, args ...string) (*running, error) {
	s, err := b.launchServer(dir, args)
	if err != nil {
		return nil, err
	}
	if err := s.writeKubeconfig(dir, s.address); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (b *bench) launchServer(dir string, args []string) (*running, error) {
	out := new(program.Output)
	p, err := launch(dir, "server", out, b.self, append([]string{roleServe, "-dir", b.dir}, args...)...)
	if err != nil {
		return nil, err
	}
	s := &running{process: p, bench: b, told: out}
	ready, err := s.await(context.Background(), func(a asked) bool { return a.Verb == "ready" })
	if err != nil {
		s.end()
		return nil, err
	}
	s.address = ready.Address
	return s, nil
}

// writeKubeconfig writes a kubeconfig that leads to the server by an address of it.
func (s *running) writeKubeconfig(dir, address string) error {
	return cluster.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), &rest.Config{
		Host: address, BearerToken: "scale", TLSClientConfig: rest.TLSClientConfig{CAData: s.bench.certificate},
	})
}

// await waits for a request.
func (s *running) await(ctx context.Context, match func(asked) bool) (found asked, err error) {
	err = s.Wait(ctx, runLimit, "wait for a request", func() error {
		for line := range bytes.Lines(s.told.Text()) {
			var a asked
			if json.Unmarshal(line, &a) == nil && match(a) {
				found = a
				return nil
			}
		}
		return errors.New("there is none")
	})
	return found, err
}

// stats asks the server how it stands.
func (s *running) stats(ctx context.Context) (st stats, err error) {
	err = s.bench.get(ctx, s.address+"/stats", func(body io.Reader) error { return json.NewDecoder(body).Decode(&st) })
	return st, err
}

// get reads a page.
func (b *bench) get(ctx context.Context, url string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	response, err := b.client.Do(request)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	return read(response.Body)
}
