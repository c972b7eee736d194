package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	writers     = 8
	padding     = 1100 // bytes, which make an event 1.6 KB as the server sends it
	deleteShare = 4    // of the writes to an object that is there, one in so many deletes it

	markPrefix = "compare-mark-" // of the names of marks; the number after it has markDigits digits
	markDigits = 6
	markSpace  = "zz-marks" // their namespace: last in the order in which lists come

	sentPrefix = "sent-" // before the time of a write's sending, in Unix nanoseconds, in the object itself
	sentDigits = 19
)

var filler = strings.Repeat("0123456789abcdef ", padding/17)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "compare"}},
		Data: map[string]string{"filler": filler,
			"sent": sentPrefix + strconv.FormatInt(time.Now().UnixNano(), 10)},
	}
}

// namespace makes one.
func (b *bench) namespace(ctx context.Context, name string) error {
	_, err := b.client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	return nil
}

// clear deletes what a scenario has left, so that the next begins with nothing.
func (b *bench) clear(ctx context.Context, namespace string) error {
	if err := b.client.ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete config maps: %w", err)
	}
	return nil
}

// mark makes the next mark.
func (b *bench) mark(ctx context.Context) error {
	b.marks++
	name := fmt.Sprintf("%s%0*d", markPrefix, markDigits, b.marks)
	if _, err := b.client.ConfigMaps(markSpace).Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make mark: %w", err)
	}
	return nil
}

// newest is the highest number of a mark in a text.
func newest(text []byte) int {
	most := 0
	for _, number := range numbers(text, markPrefix, markDigits) {
		most = max(most, int(number))
	}
	return most
}

// numbers are those of that many digits that stand after a prefix.
func numbers(text []byte, prefix string, digits int) []int64 {
	var all []int64
	for {
		_, rest, found := bytes.Cut(text, []byte(prefix))
		if !found {
			return all
		}
		if n, err := strconv.ParseInt(string(rest[:min(digits, len(rest))]), 10, 64); err == nil &&
			len(rest) >= digits {
			all = append(all, n)
		}
		text = rest
	}
}

// ledger is the writes that the server acknowledged, those of one object in their order.
type ledger struct {
	mu     sync.Mutex
	writes []change // guarded by mu
	count  atomic.Int64
}

func (l *ledger) add(c change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, c)
	l.count.Add(1)
}

// each does something for every number below n, at a rate per second, in as many goroutines as there are writers: what
// leaves the same rest when divided by writers is done by one, in order.
func (b *bench) each(ctx context.Context, n int, perSecond float64, do func(context.Context, int) error) error {
	limit := rate.NewLimiter(rate.Limit(perSecond), 1)
	group, ctx := errgroup.WithContext(ctx)
	for i := range writers {
		group.Go(func() error {
			for number := i; number < n; number += writers {
				if err := limit.Wait(ctx); err != nil {
					return err
				}
				if err := do(ctx, number); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// workload creates, updates and deletes config maps of a fixed set of names, so that some are made again under the
// name of one that was deleted. Each writer has names and a random source of its own: every round comes to the same.
type workload struct {
	bench     *bench
	namespace string
	random    [writers]*rand.Rand
	live      [writers]map[int]string // uids by the numbers of names
	ledger    *ledger
}

func (b *bench) newWorkload(namespace string) *workload {
	w := &workload{bench: b, namespace: namespace, ledger: new(ledger)}
	for i := range writers {
		w.random[i], w.live[i] = rand.New(rand.NewPCG(1, uint64(i))), make(map[int]string)
	}
	return w
}

// write makes n writes, each of which must be acknowledged.
func (w *workload) write(ctx context.Context, n int) error {
	return w.bench.each(ctx, n, w.bench.rate, func(ctx context.Context, number int) error {
		i := number % writers // which each keeps to one goroutine
		return w.step(ctx, i, w.random[i].IntN(w.bench.names/writers))
	})
}

func (w *workload) step(ctx context.Context, i, number int) error {
	name := fmt.Sprintf("o-%d-%04d", i, number)
	c := change{Type: added, Name: w.namespace + "/" + name}
	client := w.bench.client.ConfigMaps(w.namespace)
	var (
		made *corev1.ConfigMap
		err  error
	)
	switch uid, there := w.live[i][number]; {
	case !there:
		made, err = client.Create(ctx, configMap(name), metav1.CreateOptions{})
	case w.random[i].IntN(deleteShare) == 0:
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("write %s: %w", c.Name, err)
		}
		c.Type, c.UID = deleted, uid
		delete(w.live[i], number)
		w.ledger.add(c)
		return nil
	default:
		c.Type = modified
		made, err = client.Update(ctx, configMap(name), metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", c.Name, err)
	}
	c.UID, c.Version = string(made.UID), made.ResourceVersion
	w.live[i][number] = c.UID
	w.ledger.add(c)
	return nil
}
