package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configmaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// tenant writes in the namespace evil as fast as the server takes it: a large object with small patches, deep ones,
// many of long names, and of several kinds. Meanwhile somebody else changes something in the namespace shop each 100
// ms. It returns how often was written there and here, and fails where a change of shop has no line in the end.
func (t *target) tenant(ctx context.Context, o *options) (sent, held int, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.tenant)
	defer cancel()
	large := map[string]any{"metadata": map[string]any{"namespace": "evil", "name": "large"},
		"data": map[string]any{"pad": text(900_000)}}
	if _, err := t.server.Create(configmaps, large); err != nil {
		return 0, 0, err
	}
	var work sync.WaitGroup
	var errs [2]error
	work.Go(func() {
		for ; ctx.Err() == nil && errs[0] == nil; sent++ {
			errs[0] = t.flood(sent)
		}
	})
	wanted := make(map[string]bool) // versions
	work.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; errs[1] == nil; n++ {
			web := map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "web"},
				"spec": map[string]any{"replicas": n}}
			put := t.server.Update
			if n == 0 {
				put = t.server.Create
			}
			var is map[string]any
			if is, errs[1] = put(deployments, web); errs[1] == nil {
				wanted[fmt.Sprint(is["metadata"].(map[string]any)["resourceVersion"])] = true
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	work.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return sent, len(wanted), err
	}
	// all that came before is written then, but for other streams
	if err := t.writesOn(context.WithoutCancel(ctx)); err != nil {
		return sent, len(wanted), err
	}
	return sent, len(wanted), t.until(context.WithoutCancel(ctx), "written in full", func(context.Context) error {
		missing := len(wanted)
		err := lines(t.journal, func(l *line) {
			if l.Stream == "deployments.apps" && l.Namespace == "shop" && wanted[l.ResourceVersion] {
				missing--
			}
		})
		if err == nil && missing > 0 {
			err = fmt.Errorf("%d of %d changes in another namespace have no line", missing, len(wanted))
		}
		return err
	})
}

// flood makes one write of the tenant.
func (t *target) flood(n int) (err error) {
	named := func(name string, more map[string]any) map[string]any {
		more["metadata"] = map[string]any{"namespace": "evil", "name": name}
		return more
	}
	switch n % 8 {
	case 0:
		_, err = t.server.Create(configmaps,
			named(strings.Repeat("n", 240)+strconv.Itoa(n), map[string]any{"data": map[string]any{"a": text(10_000)}}))
	case 1:
		_, err = t.server.Create(pods, named("pod-"+strconv.Itoa(n), map[string]any{"spec": nested(500)}))
	case 2:
		_, err = t.server.Create(deployments,
			named("web-"+strconv.Itoa(n), map[string]any{"spec": map[string]any{"replicas": n}}))
	case 3:
		_, err = t.server.Delete(deployments, "evil", "web-"+strconv.Itoa(n-1))
	default:
		_, err = t.server.Patch(configmaps, "evil", "large",
			map[string]any{"data": map[string]any{"n": strconv.Itoa(n)}})
	}
	return err
}

// text is text that hardly compresses.
func text(size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)]
	}
	return string(b)
}

func nested(depth int) map[string]any {
	is := map[string]any{}
	for range depth {
		is = map[string]any{"a": is}
	}
	return is
}

// line is what of a journal line is looked at.
type line struct {
	Seq                                            uint64
	Type, Stream, Namespace, Name, ResourceVersion string
	Removed                                        struct{ FromSeq, ToSeq uint64 }
}

var compacted = regexp.MustCompile(`\.jsonl\.compacted-(\d+)\.gz$`)

// lines calls fn with the lines of a journal that is being written, as docs/operations.md has its files. An error can
// be of a file that has got another name meanwhile.
func lines(journal string, fn func(*line)) error {
	paths, err := filepath.Glob(strings.TrimSuffix(journal, ".jsonl") + "*")
	if err != nil {
		return err
	}
	type part struct {
		first, upTo uint64
		lines       []line
	}
	var parts []part
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".index") || strings.HasSuffix(name, ".coverage") ||
			strings.HasSuffix(name, ".gz") && slices.Contains(paths, strings.TrimSuffix(path, ".gz")) {
			continue
		}
		var p part
		if is := compacted.FindStringSubmatch(name); is != nil {
			if p.upTo, err = strconv.ParseUint(is[1], 10, 64); err != nil {
				return err
			}
		}
		if p.lines, err = linesOf(path); err != nil {
			return err
		}
		if len(p.lines) > 0 {
			p.first = p.lines[0].Seq
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.upTo, a.upTo))
	})
	next := uint64(0)
	for _, p := range parts {
		for i := range p.lines {
			l := &p.lines[i]
			if l.Seq < next {
				continue // of a file that a compacted one replaces
			}
			if next > 0 && l.Seq != next {
				return fmt.Errorf("line %d comes after line %d", l.Seq, next-1)
			}
			if next = l.Seq + 1; l.Type == "REMOVED" && l.Removed.FromSeq == l.Seq {
				next = l.Removed.ToSeq + 1
			}
			fn(l)
		}
	}
	return nil
}

func linesOf(path string) (all []line, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: renamed or removed meanwhile", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for r := bufio.NewReaderSize(in, 1<<20); ; {
		b, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // what is behind the last end is being written
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if at := bytes.Index(b, []byte(`,"object":`)); at > 0 { // the last member
			b = append(b[:at], '}')
		}
		if at := bytes.Index(b, []byte(`,"changes":`)); at > 0 {
			b = append(b[:at], '}')
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, l)
	}
}
