package client

import (
	"errors"
	"io"
	"strings"
	"testing"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

const named = `"metadata":{"namespace":"ns","name":"n","uid":"u","resourceVersion":"5"}`

// large is an object over a limit, with the metadata before or after what makes it so.
func large(size int, first bool) string {
	pad := `"pad":["` + strings.Repeat(`\"}x`, size/4) + `",{"metadata":{"name":"other"}}]`
	if first {
		return `{` + named + `,` + pad + `}`
	}
	return `{` + pad + `,` + named + `}`
}

// A frame that is too large is named, and what follows it is read.
func TestFrameTooLarge(t *testing.T) {
	const limit = 20_000
	r := mustRenderer(t, podSource, podShape)
	small := `{"type":"ADDED","object":{"metadata":{"name":"s"}}}`
	for how, wrap := range readers {
		for _, size := range []int{limit, 3 * limit, 10 * limit} {
			for _, end := range []string{"\n", "", "\r\n"} {
				for _, frame := range []string{
					`{"type":"MODIFIED","object":` + large(size, true) + `}`, `{"type":"MODIFIED","object":` + large(size, false) + `}`,
					`{"object":` + large(size, false) + `,"type":"MODIFIED"}`, "{\n\"object\" : " + large(size, true) + ",\n\"type\" : \"MODIFIED\"\n}",
				} {
					f := newFrameReader(wrap(strings.NewReader(small+end+frame+end+small+end+frame+end+small)), limit)
					for i := range 5 {
						got, err := f.Next()
						if i%2 == 0 {
							if string(got) != small || err != nil {
								t.Fatalf("%s: frame %d: %.200q, %v", how, i, got, err)
							}
							continue
						}
						if err != nil {
							t.Fatalf("%s: frame %d of %d bytes: %v", how, i, size, err)
						}
						typ, raw, err := splitWatch(got)
						if err != nil || typ != line.Modified {
							t.Fatalf("%s: %q: %s, %v", how, got, typ, err)
						}
						var o object.Object
						if err := r.Scan(raw, &o); err == nil {
							t.Errorf("%s was taken", raw)
						} else if err := r.Identify(raw, &o, err); err != nil {
							t.Errorf("%s: %v", raw, err)
						}
						if o.Unusable == nil || o.Unusable.Reason != object.ObjectTooLarge || string(o.Namespace) != "ns" || string(o.Name) != "n" || string(o.UID) != "u" || string(o.ResourceVersion) != "5" {
							t.Errorf("%s: %+v", raw, o)
						}
					}
					if _, err := f.Next(); err != io.EOF {
						t.Errorf("%s: at the end: %v", how, err)
					}
					if len(f.buf.b) > 16*limit {
						t.Errorf("%s: a buffer of %d bytes", how, len(f.buf.b))
					}
				}
			}
		}
		// What cannot be named, or does not end, is refused.
		for _, frame := range []string{
			`{"type":"ERROR","object":{"kind":"Status","message":"` + strings.Repeat("x", limit) + `"}}`,
			`{"type":"ADDED","object":{` + named + `,"pad":"` + strings.Repeat("x", skimLimits*limit+2*fastBuffer),
		} {
			f := newFrameReader(wrap(strings.NewReader(frame+"\n"+small)), limit)
			for range 2 {
				if _, err := f.Next(); !errors.Is(err, object.ErrTooLarge) {
					t.Errorf("%s: %v", how, err)
				}
			}
		}
		f := newFrameReader(wrap(strings.NewReader(`{"type":"ADDED","object":`+large(3*limit, true)[:2*limit])), limit)
		if _, err := f.Next(); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: cut: %v", how, err)
		}
	}
}

// Buffered does not take a frame that is too large for one at hand.
func TestFrameTooLargeBuffered(t *testing.T) {
	f := newFrameReader(strings.NewReader(`{"a":1}`+"\n"+`{"type":"ADDED","object":`+large(100, true)+`}`+"\n"), 100)
	if _, err := f.Next(); err != nil || f.Buffered() {
		t.Errorf("%v", err)
	}
	if got, err := f.Next(); err != nil || !strings.Contains(string(got), ",too large") {
		t.Errorf("%q, %v", got, err)
	}
}

// So it is with an item of a list.
func TestListTooLarge(t *testing.T) {
	const limit = 20_000
	for how, wrap := range readers {
		for _, size := range []int{limit, 10 * limit} {
			for _, first := range []bool{true, false} {
				item, small := large(size, first), `{"metadata":{"name":"s"}}`
				got, err := readAll(newListReader(wrap(strings.NewReader(`{"items":[`+item+`, `+small+`,`+item+"\n, "+small+`],"metadata":{"resourceVersion":"7"}}`)), limit).Next)
				want := `{"metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"5"},too large}`
				if err != io.EOF || len(got) != 4 || got[0] != want || got[1] != small || got[2] != want || got[3] != small {
					t.Fatalf("%s: %.300q, %v", how, got, err)
				}
			}
		}
	}
}

// A newline within a string does not end a frame, unless it looks like the end of one.
func TestFrameNewlineInString(t *testing.T) {
	bad := "{\"type\":\"ADDED\",\"object\":{\"a\":\"x}}\ny\"}}"
	for how, wrap := range readers {
		got, err := readAll(newFrameReader(wrap(strings.NewReader("{\"a\":1}\n{\"a\":2}\n"+bad+"\n{\"a\":3}\n")), object.MaxObject).Next)
		if err != io.EOF || len(got) != 4 || got[2] != bad {
			t.Errorf("%s: %q, %v", how, got, err)
		}
	}
}
