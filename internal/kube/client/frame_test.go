package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

// readers are ways in which the same bytes may arrive.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":      func(r io.Reader) io.Reader { return r },
	"bytes":      iotest.OneByteReader,
	"halves":     iotest.HalfReader,
	"with error": iotest.DataErrReader,
}

// readAll calls next until its error, which it returns twice.
func readAll(next func() ([]byte, error)) ([]string, error) {
	var got []string
	for {
		b, err := next()
		if err != nil {
			if _, again := next(); again != err {
				return got, fmt.Errorf("next after %w gave %w", err, again)
			}
			return got, err
		}
		got = append(got, string(b))
	}
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
		err  error
	}{
		"empty":            {"", nil, io.EOF},
		"white space":      {" \r\n\t\n", nil, io.EOF},
		"lines":            {"{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}, io.EOF},
		"carriage return":  {"{\"a\":1}\r\n{\"b\":2}\r\n", []string{`{"a":1}`, `{"b":2}`}, io.EOF},
		"no last newline":  {"{\"a\":1}\n{\"b\":2}", []string{`{"a":1}`, `{"b":2}`}, io.EOF},
		"no newline":       {`{"a":1}{"b":2} {"c":3}`, []string{`{"a":1}`, `{"b":2}`, `{"c":3}`}, io.EOF},
		"two on a line":    {"{\"a\":1}{\"b\":2}\n{\"c\":3}{\"d\":4}\n", []string{`{"a":1}`, `{"b":2}`, `{"c":3}`, `{"d":4}`}, io.EOF},
		"indented":         {"{\n  \"a\": {\n    \"b\": {}\n  }\n}\n{\n \"c\": 1\n}\n", []string{"{\n  \"a\": {\n    \"b\": {}\n  }\n}", "{\n \"c\": 1\n}"}, io.EOF},
		"line, indented":   {"{\"a\":1}\n{\"x\":{\n}\n}\n{\"b\":2}\n", []string{`{"a":1}`, "{\"x\":{\n}\n}", `{"b":2}`}, io.EOF},
		"open brace goes":  {"{\"a\":1}\n{\"x\":{}\n,\"y\":{}}\n{\"b\":2}\n", []string{`{"a":1}`, "{\"x\":{}\n,\"y\":{}}", `{"b":2}`}, io.EOF},
		"brackets in text": {"{\"a\":1}\n{\"a\":\"}{[\\\"{\"}\n{\"a\":\"\\\\\"}\n", []string{`{"a":1}`, `{"a":"}{[\"{"}`, `{"a":"\\"}`}, io.EOF},
		"array":            {"[1,2]\n[]\n", []string{"[1,2]", "[]"}, io.EOF},
		"cut":              {"{\"a\":1}\n{\"b\":", []string{`{"a":1}`}, io.ErrUnexpectedEOF},
		"cut at a brace":   {"{\"a\":1}\n{\"b\":{}", []string{`{"a":1}`}, io.ErrUnexpectedEOF},
		"cut at a newline": {"{\"a\":1}\n{\"b\":{}\n", []string{`{"a":1}`}, io.ErrUnexpectedEOF},
		"cut in a string":  {`{"a":"}`, nil, io.ErrUnexpectedEOF},
	} {
		for how, wrap := range readers {
			t.Run(name+"/"+how, func(t *testing.T) {
				got, err := readAll(newFrameReader(wrap(strings.NewReader(c.in)), object.MaxObject).Next)
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) || err != c.err {
					t.Errorf("got %q, %v\nwant %q, %v", got, err, c.want, c.err)
				}
			})
		}
	}
}

func TestFrameGarbage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"404 page not found\n", `read frame: expected a JSON object, got "404 page not found\n" at byte 0`},
		{"<html>", `read frame: expected a JSON object, got "<html>" at byte 0`},
		{"{\"password\":1}\nhunter2", `read frame: expected a JSON object at byte 15`},
	} {
		_, err := readAll(newFrameReader(strings.NewReader(c.in), object.MaxObject).Next)
		var syntax *object.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.in, err, c.want)
		}
	}
}

func TestFrameLimit(t *testing.T) {
	small, large := `{"a":"`+strings.Repeat("x", 92)+`"}`, `{"a":"`+strings.Repeat("x", 93)+`"}`
	for how, wrap := range readers {
		for _, end := range []string{"\n", ""} {
			got, err := readAll(newFrameReader(wrap(strings.NewReader(small+end+small+end+large+end)), 100).Next)
			if len(got) != 2 || !errors.Is(err, object.ErrTooLarge) || !strings.Contains(err.Error(), "limit 100") {
				t.Errorf("%s: got %d frames, %v", how, len(got), err)
			}
		}
		// What is not yet complete is refused as soon as it is too large.
		endless := io.MultiReader(strings.NewReader(`{"a":"`), &loop{b: []byte("x")})
		if _, err := readAll(newFrameReader(wrap(endless), 5000).Next); !errors.Is(err, object.ErrTooLarge) {
			t.Errorf("%s: endless value: %v", how, err)
		}
	}
}

func TestFrameReaderError(t *testing.T) {
	broken := errors.New("connection reset")
	got, err := readAll(newFrameReader(io.MultiReader(strings.NewReader("{\"a\":1}\n{\"b\""), iotest.ErrReader(broken)), object.MaxObject).Next)
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err = readAll(newFrameReader(iotest.ErrReader(broken), object.MaxObject).Next); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err = readAll(newFrameReader(readerFunc(func([]byte) (int, error) { return 0, nil }), object.MaxObject).Next); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("reader that gives nothing: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A value must come out when it is complete, not when the next one begins.
func TestFrameDoesNotWait(t *testing.T) {
	for _, ends := range [][]string{{"\n", "\n", "\n", "\n"}, {"", "", "", ""}, {"\n", "\n", "", ""}} {
		r, w := io.Pipe()
		f := newFrameReader(r, object.MaxObject)
		for i, end := range ends {
			want := fmt.Sprintf(`{"n":%d,"o":{}}`, i)
			go io.WriteString(w, want+end)
			got, err := f.Next()
			if err != nil || string(got) != want {
				t.Fatalf("got %q, %v, want %s", got, err, want)
			}
			if f.Buffered() {
				t.Error("buffered, but nothing more was sent")
			}
			if string(got) != want {
				t.Errorf("Buffered changed the frame to %q", got)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFrameBuffered(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []bool // after each frame
	}{
		{"lines", "{}\n{}\n{}\n", []bool{true, true, false}},
		{"part of a line", "{}\n{\"a\"", []bool{false}},
		{"indented", "{\n}\n{\n}\n{\n", []bool{true, false}},
		{"garbage", "{}\nx", []bool{false}},
	} {
		f := newFrameReader(strings.NewReader(c.in), object.MaxObject)
		for i, want := range c.want {
			if _, err := f.Next(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := f.Buffered(); got != want {
					t.Errorf("%s: after frame %d: got %v", c.name, i, got)
				}
			}
		}
	}
}

func TestFrameStream(t *testing.T) {
	var want, stream []byte
	for i := range 200 {
		pod := eventtest.Pod(1700+i*100, i)
		stream = append(append(append(stream, `{"type":"MODIFIED","object":`...), pod...), "}\n"...)
		want = append(want, pod...)
	}
	for _, wrap := range []func(io.Reader) io.Reader{readers["whole"], readers["halves"]} {
		f := newFrameReader(wrap(bytes.NewReader(stream)), 1<<20)
		var got []byte
		for {
			frame, err := f.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			typ, object, err := splitWatch(frame)
			if err != nil || typ != line.Modified {
				t.Fatalf("%s: %v", typ, err)
			}
			got = append(got, object...)
		}
		if !bytes.Equal(got, want) {
			t.Error("objects differ from those sent")
		}
	}
}

// A buffer that one huge value has grown is not kept by a stream that is idle.
func TestFrameBufferShrinks(t *testing.T) {
	huge := `{"a":"` + strings.Repeat("x", 3*keptBuffer) + "\"}\n"
	f := newFrameReader(io.MultiReader(strings.NewReader(huge), iotest.OneByteReader(strings.NewReader("{}\n{}\n"))), object.MaxObject)
	for range 3 {
		if _, err := f.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.buf.b); n > keptBuffer {
		t.Errorf("buffer of %d bytes kept", n)
	}
}

func FuzzFrameReader(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\"b\":{}}\n"), uint8(3))
	f.Add([]byte("{\n\"a\": [1,\n{}]\n}\n{}"), uint8(1))
	f.Add([]byte("{}\n{\"}\":{}\n,\"{\":1}\n"), uint8(1))
	f.Add([]byte("{}{}\n{}"), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		chunks := func() io.Reader {
			rest := in
			return readerFunc(func(p []byte) (int, error) {
				if len(rest) == 0 {
					return 0, io.EOF
				}
				n := copy(p[:min(len(p), int(piece)+1)], rest)
				rest = rest[n:]
				return n, nil
			})
		}
		var want []string
		layout := 0 // 1: each value a line, 2: the first is none, 3: a later one is none
		dec := json.NewDecoder(bytes.NewReader(in))
		var decErr error
		for {
			var v json.RawMessage
			if decErr = dec.Decode(&v); decErr != nil {
				break
			}
			if v[0] != '{' && v[0] != '[' {
				decErr = errors.New("not for a watch")
				break
			}
			want = append(want, string(v))
			rest := in[dec.InputOffset():]
			line := !bytes.Contains(v, []byte("\n")) && (len(rest) == 0 || rest[0] == '\n' || rest[0] == '\r')
			switch {
			case layout == 0 && !line:
				layout = 2
			case layout == 0:
				layout = 1
			case layout == 1 && !line:
				layout = 3
			}
		}
		got, err := readAll(newFrameReader(chunks(), object.MaxObject).Next)
		for i, g := range got {
			if i < len(want) && g == want[i] {
				continue
			}
			// What json.Decoder does not take from there is for Scan to refuse;
			// where layouts are mixed a value may be cut, but never into values.
			if json.Valid([]byte(g)) && (layout != 3 || decErr == io.EOF) {
				t.Fatalf("frame %d is %q, json.Decoder has %q (%v)", i, g, want, decErr)
			}
			return
		}
		if decErr == io.EOF && layout != 3 && (len(got) != len(want) || err != io.EOF) {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		if len(got) < len(want) && layout != 3 && err == io.EOF {
			t.Fatalf("clean end after %q, want %q", got, want)
		}
	})
}
