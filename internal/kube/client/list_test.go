package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

func TestList(t *testing.T) {
	meta := ListMeta{ResourceVersion: "12", Continue: "ey\"J", RemainingItems: 3}
	const metaJSON = `"metadata":{"selfLink":null,"resourceVersion":"12","continue":"ey\"J","remainingItemCount":3}`
	for name, c := range map[string]struct {
		in   string
		want []string
		meta ListMeta
		err  error
	}{
		"metadata first": {`{"kind":"PodList",` + metaJSON + `,"items":[{"a":1},{"b":"]}"}]}`, []string{`{"a":1}`, `{"b":"]}"}`}, meta, io.EOF},
		"metadata last":  {`{"items":[{"a":1}],` + metaJSON + `}`, []string{`{"a":1}`}, meta, io.EOF},
		"indented":       {"{\n \"items\" : [\n  {\n \"a\": 1\n } ,\n {}\n ] ,\n " + metaJSON + "\n}\n", []string{"{\n \"a\": 1\n }", "{}"}, meta, io.EOF},
		"null items":     {`{"items":null,` + metaJSON + `}`, nil, meta, io.EOF},
		"empty":          {`{"items":[],` + metaJSON + `}`, nil, meta, io.EOF},
		"escaped key":    {`{"it\u0065ms":[{}]}`, []string{`{}`}, ListMeta{}, io.EOF},
		"unknown":        {`{"x":{"items":[{}]},"y":1,"z":"\"","items":[{}]}`, []string{`{}`}, ListMeta{}, io.EOF},
		"cut in item":    {`{"items":[{"a":1},{"b"`, []string{`{"a":1}`}, ListMeta{}, io.ErrUnexpectedEOF},
		"cut after item": {`{"items":[{"a":1}`, []string{`{"a":1}`}, ListMeta{}, io.ErrUnexpectedEOF},
		"cut after list": {`{"items":[{"a":1}]`, []string{`{"a":1}`}, ListMeta{}, io.ErrUnexpectedEOF},
		"cut at once":    {``, nil, ListMeta{}, io.ErrUnexpectedEOF},
		"cut in key":     {`{"it`, nil, ListMeta{}, io.ErrUnexpectedEOF},
	} {
		for how, wrap := range readers {
			t.Run(name+"/"+how, func(t *testing.T) {
				l := newListReader(wrap(strings.NewReader(c.in)), object.MaxObject)
				got, err := readAll(l.Next)
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) || err != c.err {
					t.Errorf("got %q, %v\nwant %q, %v", got, err, c.want, c.err)
				}
				if l.Meta() != c.meta {
					t.Errorf("got %+v, want %+v", l.Meta(), c.meta)
				}
			})
		}
	}
}

func TestListMetaSeen(t *testing.T) {
	for in, want := range map[string]bool{
		`{"metadata":{},"items":[{}]}`: true,
		`{"items":[{}],"metadata":{}}`: false,
	} {
		l := newListReader(strings.NewReader(in), object.MaxObject)
		if _, err := l.Next(); err != nil || l.metaSeen != want {
			t.Errorf("%s: metadata seen %v at the first item, %v", in, l.metaSeen, err)
		}
		if _, err := l.Next(); err != io.EOF || !l.metaSeen {
			t.Errorf("%s: metadata seen %v at the end, %v", in, l.metaSeen, err)
		}
	}
}

func TestListFaults(t *testing.T) {
	for _, in := range []string{
		`[]`, `404 page not found`, `{"items":{}}`, `{"items":[1]}`, `{"items":[{} {}]}`, `{"items":[{},]}`, `{"items":[,{}]}`,
		`{"items":[{}],"items":[]}`, `{"items":[]` + "\n" + `"x":1}`, `{"metadata":[]}`, `{"metadata":{]}}`, `{"metadata":{"resourceVersion":1}}`,
		`{"a" 1}`, `{1:2}`, `{"a\x":1}`, `{"a":}`, `{"a":tru}`, `{"a":1,}`, `{"items":"x"}`,
		`{"kind":"Table","metadata":{"resourceVersion":"1"},"rows":[],"items":null}`,
	} {
		for how, wrap := range readers {
			if _, err := readAll(newListReader(wrap(strings.NewReader(in)), object.MaxObject).Next); err == io.EOF || err == io.ErrUnexpectedEOF {
				t.Errorf("%s/%s: got %v", in, how, err)
			}
		}
	}
	_, err := readAll(newListReader(strings.NewReader("404 page not found\n"), object.MaxObject).Next)
	if want := `read list: expected a JSON object, got "404 page not found\n" at byte 0`; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestListStatus(t *testing.T) {
	for _, in := range []string{
		`{"kind":"Status","apiVersion":"v1","metadata":{"continue":"x"},"status":"Failure","message":"too \"old\"","reason":"Expired","code":410}`,
		`{"code":410,"reason":"Expired","message":"too \"old\"","metadata":{"continue":"x"},"kind":"Status"}`,
	} {
		l := newListReader(strings.NewReader(in), object.MaxObject)
		_, err := l.Next()
		if !apierrors.IsResourceExpired(err) || l.Meta().Continue != "x" {
			t.Errorf("got %v, %+v", err, l.Meta())
		}
		status := new(apierrors.StatusError)
		if !errors.As(err, &status) || status.ErrStatus.Code != 410 {
			t.Errorf("got %+v", err)
		}
		if want := `read list: too "old"`; err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestListLimit(t *testing.T) {
	in := `{"items":[{"a":"` + strings.Repeat("x", 91) + `"},{"a":"` + strings.Repeat("x", 93) + `"}]}`
	got, err := readAll(newListReader(strings.NewReader(in), 100).Next)
	if len(got) != 1 || !errors.Is(err, object.ErrTooLarge) {
		t.Errorf("got %d items, %v", len(got), err)
	}
}

// A list is never held: the buffer stays near the size of an item, or of a read.
func TestListMemory(t *testing.T) {
	const n = 500
	parts := []io.Reader{strings.NewReader(`{"kind":"PodList","items":[`)}
	for i := range n {
		if i > 0 {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, bytes.NewReader(eventtest.Pod(6000, i)))
	}
	parts = append(parts, strings.NewReader(`],"metadata":{"resourceVersion":"7"}}`))
	l := newListReader(io.MultiReader(parts...), 1<<20)
	for i := range n {
		item, err := l.Next()
		if err != nil || !bytes.Equal(item, eventtest.Pod(6000, i)) {
			t.Fatalf("item %d: %v", i, err)
		}
	}
	if _, err := l.Next(); err != io.EOF || l.Meta().ResourceVersion != "7" {
		t.Fatalf("%v, %+v", err, l.Meta())
	}
	if size := len(l.buf.b); size > fastBuffer {
		t.Errorf("buffer of %d bytes", size)
	}
}

func FuzzListReader(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"1","continue":"c","remainingItemCount":2},"items":[{"a":1},{}]}`))
	f.Add([]byte("{ \"items\" : null , \"metadata\" : null }"))
	f.Add([]byte(`{"kind":"Status","message":"no"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole := newListReader(bytes.NewReader(in), object.MaxObject)
		got, err := readAll(whole.Next)
		pieces := newListReader(readers["bytes"](bytes.NewReader(in)), object.MaxObject)
		again, errAgain := readAll(pieces.Next)
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", again) || (err == io.EOF) != (errAgain == io.EOF) || whole.Meta() != pieces.Meta() {
			t.Fatalf("whole: %q, %v, by bytes: %q, %v", got, err, again, errAgain)
		}
		for _, g := range got {
			if !json.Valid([]byte(g)) {
				return // for Scan to refuse
			}
		}
		var want map[string]json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(in))
		wantErr := dec.Decode(&want)
		if err != io.EOF {
			return
		}
		if wantErr != nil {
			t.Fatalf("read %q, which is %v", in, wantErr)
		}
		var items []json.RawMessage
		if json.Unmarshal(want["items"], &items) != nil && want["items"] != nil {
			t.Fatalf("items of %q", in)
		}
		if len(items) != len(got) {
			t.Fatalf("got %q, want %q", got, items)
		}
		for i := range items {
			if string(items[i]) != got[i] {
				t.Fatalf("item %d is %q, want %q", i, got[i], items[i])
			}
		}
	})
}
