package line

import "testing"

func TestLater(t *testing.T) {
	for _, c := range []struct {
		position, current string
		want              bool
	}{
		{"10", "9", true}, {"10", "10", false}, {"9", "10", false},
		{"18446744073709551616", "18446744073709551615", true}, // more than 64 bits
		{"100000000000000000000000", "99999999999999999999999", true},
		{"abc", "9", false}, {"10", "abc", false}, {"", "9", false}, {"10", "", false}, {"010", "9", false},
	} {
		if got := Later(c.position, c.current); got != c.want {
			t.Errorf("position %q, server %q: got %v", c.position, c.current, got)
		}
	}
}
