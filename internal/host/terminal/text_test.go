package terminal

import "testing"

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in          string
		limit       int
		end, middle string
	}{
		{"web-0", 5, "web-0", "web-0"},
		{"web-00", 5, "web-…", "we…00"},
		{"abcdef", 4, "abc…", "ab…f"},
		{"abcdef", 1, "…", "…"},
		{"abcdef", 0, "", ""},
		{"日本語です", 6, "日本…", "日…す"},
		{"日本語です", 5, "日本…", "日…す"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301", "e\u0301e\u0301e\u0301"},
	} {
		if got := string(CutEnd([]byte("x"+c.in), 1, c.limit)); got != "x"+c.end {
			t.Errorf("CutEnd %q, %d: %q, want %q", c.in, c.limit, got, c.end)
		}
		if got := string(CutMiddle([]byte("x"+c.in), 1, c.limit)); got != "x"+c.middle {
			t.Errorf("CutMiddle %q, %d: %q, want %q", c.in, c.limit, got, c.middle)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB", 812e9: "812 GB", 5e15: "5000 TB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
