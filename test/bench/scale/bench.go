package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
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
	notes   io.Writer // for what goes on

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
	b.program = filepath.Join(b.dir, "kubejournal")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", b.program, "kubejournal/cmd/kubejournal")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes its work folder
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kubejournal: %w\n%s", err, out)
	}
	return b, nil
}

func (b *bench) close() error {
	if b.options.keep {
		fmt.Fprintln(b.notes, "journals, checkpoints and logs are in", b.dir)
		return nil
	}
	return os.RemoveAll(b.dir)
}

// makeCertificate makes a certificate for loopback. TLS is what a real server speaks, and what HTTP/2 needs.
func (b *bench) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "scale"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	b.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.certificate)
	b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	return errors.Join(
		os.WriteFile(filepath.Join(b.dir, certFile), b.certificate, 0o600),
		os.WriteFile(filepath.Join(b.dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600),
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
	read    sync.WaitGroup

	mu    sync.Mutex
	asked []asked       // guarded by mu
	more  chan struct{} // has something when asked has grown
}

// serve starts a server in dir, and writes the kubeconfig that leads to it.
func (b *bench) serve(dir string, args ...string) (*running, error) {
	s, err := b.launchServer(dir, args)
	if err != nil {
		return nil, err
	}
	if err := s.writeKubeconfig(dir, s.address); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (b *bench) launchServer(dir string, args []string) (*running, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	p, err := launch(dir, "server", w, b.self, append([]string{roleServe, "-dir", b.dir}, args...)...)
	_ = w.Close() // the child has its own
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	s := &running{process: p, bench: b, more: make(chan struct{}, 1)}
	ready := make(chan string, 1)
	s.read.Go(func() {
		defer r.Close()
		defer close(ready)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var a asked
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				continue // half a line of a server that was killed
			}
			if a.Verb == "ready" {
				ready <- a.Address
				continue
			}
			s.mu.Lock()
			s.asked = append(s.asked, a)
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
		}
	})
	if s.address = <-ready; s.address == "" {
		s.stop()
		return nil, p.fault(errors.New("did not start"))
	}
	return s, nil
}

// writeKubeconfig writes a kubeconfig that leads to the server by an address of it.
func (s *running) writeKubeconfig(dir, address string) error {
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "scale",
		"clusters": []any{map[string]any{"name": "scale", "cluster": map[string]any{
			"server": address, "certificate-authority-data": s.bench.certificate,
		}}},
		"users":    []any{map[string]any{"name": "scale", "user": map[string]any{"token": "scale"}}},
		"contexts": []any{map[string]any{"name": "scale", "context": map[string]any{"cluster": "scale", "user": "scale"}}},
	}
	content, err := json.Marshal(config) // which is YAML
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "kubeconfig"), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

func (s *running) stop() {
	s.end()
	s.read.Wait()
}

// await waits for a request.
func (s *running) await(ctx context.Context, match func(asked) bool) (asked, error) {
	for seen := 0; ; {
		s.mu.Lock()
		all := s.asked[seen:]
		seen = len(s.asked)
		s.mu.Unlock()
		for _, a := range all {
			if match(a) {
				return a, nil
			}
		}
		select {
		case <-s.more:
		case <-s.done:
			return asked{}, s.fault(errors.New("server has ended"))
		case <-ctx.Done():
			return asked{}, ctx.Err()
		}
	}
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

// terminate asks the daemon to end, and expects a clean end.
func terminate(p *process) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return p.fault(fmt.Errorf("ended with status %d", code))
	}
	return nil
}
