package answer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
)

// Doubts of one reason are one cause, up to the last of them, while not more than moments are between them.
func TestCauses(t *testing.T) {
	at := func(second int64) (t time.Time) {
		if second > 0 {
			t = time.Unix(second, 0)
		}
		return t
	}
	type span struct {
		stream   string
		from, to int64 // seconds; to is 0 where it lasts
	}
	for name, c := range map[string]struct {
		doubts []span
		want   []string
	}{
		"overlap":      {[]span{{"a", 10, 20}, {"b", 15, 30}, {"c", 16, 18}}, []string{"[a b c] 10-30"}},
		"are close":    {[]span{{"b", 24, 30}, {"a", 10, 20}}, []string{"[a b] 10-30"}},
		"are apart":    {[]span{{"a", 10, 20}, {"b", 25, 30}}, []string{"[a] 10-20", "[b] 25-30"}},
		"one lasts":    {[]span{{"a", 10, 0}, {"b", 40, 50}, {"c", 60, 70}}, []string{"[a b c] 10-0"}},
		"another does": {[]span{{"a", 10, 20}, {"b", 15, 0}}, []string{"[a b] 10-0"}},
	} {
		var doubts []question.Doubt
		for _, s := range c.doubts {
			doubts = append(doubts, question.Doubt{Stream: s.stream, From: at(s.from), To: at(s.to), Reason: coverage.Stopped})
		}
		var got []string
		for _, c := range causesOf(doubts) {
			got = append(got, fmt.Sprintf("%v %d-%d", c.streams, c.From.Unix(), max(0, c.To.Unix())))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
