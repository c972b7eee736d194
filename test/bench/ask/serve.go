package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kubejournal/internal/ask/serve"
	"kubejournal/test/program"
)

// clients are how many ask a server of the past at once.
const clients = 20

// served asks a server of the past what kubectl would: one process answers it all.
func (a *archive) served(out io.Writer, binary string, at string, count int) (err error) {
	dir, err := os.MkdirTemp("", "kubejournal-bench-ask-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kubeconfig := filepath.Join(dir, "past.yaml")
	begun := time.Now()
	p, err := program.Start(exec.Command(binary, "serve", "--journal", a.journal, "--at", at, "--listen", "127.0.0.1:0",
		"--kubeconfig", kubeconfig), filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer p.End()
	var address string
	if err := p.Wait(context.Background(), time.Minute, "the kubeconfig", func() (err error) {
		address, _, err = serve.ReadKubeconfig(kubeconfig)
		return err
	}); err != nil {
		return err
	}
	ask := func(name string, n int, do func() (int, error)) error {
		for range n {
			was, err := p.CPU()
			if err != nil {
				return err
			}
			start := time.Now()
			rows, err := do()
			c := cost{wall: time.Since(start)}
			if err == nil && rows == 0 {
				err = errors.New("no answer")
			}
			if err != nil {
				return p.Fault(fmt.Errorf("%s: %w", name, err))
			}
			is, err := p.CPU()
			most, unread := p.Memory("VmHWM")
			if err := errors.Join(err, unread); err != nil {
				return err
			}
			c.cpu, c.memory = is-was, most[0]>>10
			report(out, name, "serve", c, c.wall.Seconds(), rows, 0)
		}
		return nil
	}
	namespace := address + "/api/v1/namespaces/" + url.PathEscape(a.namespace) + "/pods"
	report(out, "start", "serve", cost{wall: time.Since(begun)}, time.Since(begun).Seconds(), 1, 0)
	return errors.Join(
		ask("namespace", count, func() (int, error) { return list(namespace, "application/json") }),
		ask("namespace-table", count, func() (int, error) { return list(namespace, table) }),
		ask("all-table", count, func() (int, error) { return list(address+"/api/v1/pods", table) }),
		ask("20-clients", count, func() (rows int, err error) {
			var all errgroup.Group
			for range clients {
				all.Go(func() error {
					_, err := list(namespace, table)
					return err
				})
			}
			return clients, all.Wait()
		}),
		ask("all-json", 1, func() (int, error) { return list(address+"/api/v1/pods", "application/json") }),
		ask("20-clients-all", 1, func() (rows int, err error) {
			var all errgroup.Group
			for range clients {
				all.Go(func() error {
					_, err := list(address+"/api/v1/pods", table)
					return err
				})
			}
			return clients, all.Wait()
		}),
	)
}

const table = "application/json;as=Table;v=v1;g=meta.k8s.io"

// list reads a list in pages of 500, as kubectl does, and returns how many objects it has.
func list(address, accept string) (n int, err error) {
	for next := ""; ; {
		page := address + "?limit=500&continue=" + next
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, page, http.NoBody)
		if err != nil {
			return n, err
		}
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return n, err
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it is read
		if err != nil {
			return n, err
		}
		var of struct {
			Metadata    struct{ Continue string }
			Items, Rows []json.RawMessage
		}
		if err := json.Unmarshal(body, &of); err != nil || answer.StatusCode != http.StatusOK {
			return n, fmt.Errorf("%s: %s: %.200s: %w", address, answer.Status, body, err)
		}
		if w := answer.Header.Get("Warning"); strings.Contains(w, "not covered") {
			return n, fmt.Errorf("%s: %s", address, w)
		}
		n += len(of.Items) + len(of.Rows)
		if next = of.Metadata.Continue; next == "" {
			return n, nil
		}
	}
}
