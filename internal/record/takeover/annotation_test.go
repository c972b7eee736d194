package takeover

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// strict refuses a Lease as the server does: with more than so many bytes of annotations.
type strict struct {
	next    http.RoundTripper
	limit   int
	code    int
	refused *int
}

func (s *strict) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var lease struct {
			Metadata struct{ Annotations map[string]string }
		}
		if err := json.Unmarshal(body, &lease); err != nil {
			return nil, err
		}
		size := 0
		for name, value := range lease.Metadata.Annotations {
			size += len(name) + len(value)
		}
		if size > s.limit {
			*s.refused++
			text := fmt.Sprintf(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too long","code":%d,"reason":%q}`,
				s.code, map[int]string{422: "Invalid", 413: "RequestEntityTooLarge"}[s.code])
			return &http.Response{StatusCode: s.code, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return s.next.RoundTrip(r)
}

// A Lease is renewed however many positions there are, whatever other annotations it has, and where the server takes
// less than it should. What is left out is known as begun by the leader.
func TestManyPositions(t *testing.T) {
	for name, c := range map[string]struct {
		streams, others, limit, code int
		all                          bool
	}{
		"some":                  {streams: 300, limit: maxAnnotations, code: 422, all: true},
		"too many":              {streams: 24_000, limit: maxAnnotations, code: 422},
		"far too many":          {streams: 50_000, limit: maxAnnotations, code: 422},
		"other annotations":     {streams: 10_000, others: 200 << 10, limit: maxAnnotations, code: 422},
		"no room":               {streams: 10_000, others: 255 << 10, limit: maxAnnotations, code: 422},
		"a server of its own":   {streams: 10_000, limit: 64 << 10, code: 422},
		"a proxy with a limit":  {streams: 10_000, limit: 16 << 10, code: 413},
		"one that takes little": {streams: 10_000, limit: 1 << 10, code: 413},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && c.streams > 1000 {
				t.Skip("not in make quick")
			}
			inWorld(t, func(w *world) {
				refused := 0
				w.wrap = func(next http.RoundTripper) http.RoundTripper { return &strict{next, c.limit, c.code, &refused} }
				a, b := w.pair()
				if c.others > 0 {
					note := map[string]any{"metadata": map[string]any{
						"annotations": map[string]any{"note": strings.Repeat("x", c.others)},
					}}
					if _, err := w.srv.Patch(leases, "default", "writer", note); err != nil {
						t.Fatal(err)
					}
				}
				positions := somePositions(c.streams)
				positions["pods"], positions["zzz"] = Position{At: "7"}, Position{At: "9", Restored: 1}
				a.rec.commit(positions)
				pass(12 * time.Second) // longer than renewDeadline
				for range 8 {
					pass(time.Second)
					if !a.May() {
						t.Fatal("the leader may not write")
					}
				}
				if a.rec.published != a.rec.version {
					t.Errorf("published is %d of %d", a.rec.published, a.rec.version)
				}
				if c.limit == maxAnnotations && refused > 0 {
					t.Errorf("%d writes are refused", refused)
				}
				published, left := b.rec.term.Published, a.Status().LeftOut
				if c.all {
					if !maps.Equal(published, positions) || left > 0 {
						t.Errorf("%d of %d positions are published, %d left out", len(published), len(positions), left)
					}
				} else if any := published[AnyOther]; any != unnamed || left == 0 ||
					len(published) < len(positions)-left+1 || len(published) > len(positions)-left+2 {
					t.Errorf("%d of %d positions are published, %d left out, any other is %v",
						len(published), len(positions), left, any)
				}
				if c.others+c.limit == maxAnnotations && (len(published) < min(c.streams, 10_000) || published["zzz"].Restored != 1) {
					t.Errorf("only %d positions are published", len(published))
				}
				a.end()
				pass(5 * time.Second)
				if !b.May() {
					t.Error("the other does not take over")
				}
				b.end()
			})
		})
	}
}

// The streams that are left out are the same each time, and it is said once.
func TestLeftOut(t *testing.T) {
	inWorld(t, func(w *world) {
		core, log := observer.New(zap.InfoLevel)
		w.log = zap.New(core)
		a, b := w.pair()
		positions := somePositions(24_000)
		a.rec.commit(maps.Clone(positions))
		pass(10 * time.Second)
		before := maps.Clone(b.rec.term.Published)
		for range 4 {
			positions["pods"] = Position{At: fmt.Sprint(time.Now().Unix())}
			a.rec.commit(maps.Clone(positions))
			pass(4 * time.Second)
		}
		gone := 0
		for name := range before {
			if _, is := b.rec.term.Published[name]; !is {
				gone++
			}
		}
		if gone > len(before)/100 {
			t.Errorf("%d of %d are not published any more", gone, len(before))
		}
		if n := log.FilterMessageSnippet("has no room").Len(); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
		a.rec.commit(somePositions(10))
		pass(4 * time.Second)
		if n := log.FilterMessageSnippet("all streams again").Len(); n != 1 || a.Status().LeftOut != 0 {
			t.Errorf("its end is logged %d times, left out are %d", n, a.Status().LeftOut)
		}
		b.end()
		a.end()
	})
}

// bomb packs more than it seems to.
func bomb(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = io.WriteString(z, text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// What somebody writes into the Lease costs little memory.
func TestBomb(t *testing.T) {
	one := bomb(t, `{"pods":"=`+strings.Repeat("1", 64<<20)+`"}`)
	many := bomb(t, strings.Repeat(" ", 1<<20)+"{}")
	raw, err := base64.StdEncoding.DecodeString(many)
	if err != nil {
		t.Fatal(err)
	}
	for name, packed := range map[string]string{
		"one position":  one,
		"several files": base64.StdEncoding.EncodeToString(bytes.Repeat(raw, 100)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := decode(packed)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "larger than 2 MiB") {
			t.Errorf("%s: read as %d positions, %v", name, len(got), err)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 32 {
			t.Errorf("%s: takes %d MiB", name, n)
		}
	}
}

// Damage is logged once for each cause, also where it comes back after each renewal, and again in another term. A
// replica that has never read a position takes nothing for new.
func TestDamageIsLogged(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a", 0)
		w.after(time.Second, a, "leads 1")
		core, log := observer.New(zap.ErrorLevel)
		w.log = zap.New(core)
		write := func(value string) {
			damage := map[string]any{"metadata": map[string]any{"annotations": map[string]any{positionsKey: value}}}
			if _, err := w.srv.Patch(leases, "default", "writer", damage); err != nil {
				t.Fatal(err)
			}
		}
		a.rec.commit(Positions{"pods": {At: "7"}})
		pass(3 * time.Second)
		a.cut.Store(true)
		write("damaged")
		b := w.start("b", 0)
		pass(time.Second)
		if b.rec.term.Published[AnyOther] != unnamed {
			t.Errorf("b was given %v", b.rec.term.Published)
		}
		a.cut.Store(false)
		for i := range 20 {
			pass(2 * time.Second)
			write(strings.Repeat("AAAA", i) + "!")
		}
		if n := log.FilterMessageSnippet("cannot decode").Len(); n != 1 {
			t.Errorf("one cause is logged %d times: %v", n, log.All())
		}
		for range 20 {
			write("bm8=")
			pass(700 * time.Millisecond)
		}
		if n := log.FilterMessageSnippet("cannot decode").Len(); n != 2 {
			t.Errorf("two causes are logged %d times", n)
		}
		pass(5 * time.Second)
		if err := b.Err(); err != nil {
			t.Errorf("after a renewal: %v", err)
		}
		b.end()
		a.end()
	})
}
