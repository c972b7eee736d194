package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
)

// WriteText shows the daemon at an address, then its streams as a table.
func (s *Status) WriteText(w io.Writer, address string, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i, c := range cells {
			cells[i] = plain(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("address", address)
	row("version", s.Version)
	if !s.Started.IsZero() {
		row("up", Age(now, s.Started))
	}
	row("ready", map[bool]string{true: "yes", false: "no"}[s.Ready])
	for _, c := range s.Checks {
		switch {
		case !c.OK:
			row("", c.Name+" failed: "+c.Text)
		case c.Text != "":
			row("", c.Name+": "+c.Text)
		}
	}
	if s.Server != "" {
		row("server", s.Server)
	}
	if s.Config != "" {
		row("config", s.Config)
	}
	if j := s.Journal; j != nil {
		row("journal", pathText(j.Path, "stdout"))
		row("", journalText(j, now))
	}
	if a := s.Audit; a != nil {
		row("audit logs", auditText(a, now))
		if a.Error != "" {
			row("", a.Error)
		}
	}
	if c := s.Checkpoint; c != nil {
		row("checkpoint", pathText(c.Path, "none: a restart starts over")+freeText(c.Space))
	}
	fmt.Fprintln(t)
	row("STREAM", "STATE", "POSITION", "PROGRESS", "GAP")
	for _, one := range s.Streams {
		row(one.Stream, stateText(&one), cmp.Or(one.ResourceVersion, "-"), agoOr(now, one.LastProgress),
			agoOr(now, one.LastGap))
	}
	return t.Flush()
}

// auditText says how many audit logs are followed, and how far.
func auditText(a *Audit, now time.Time) string {
	text := fmt.Sprintf("%d files", a.Files)
	if !a.Decided.IsZero() {
		text += ", users written up to " + Age(now, a.Decided) + " ago"
	}
	return text
}

// stateText is a stream's state with its reason, unless that is said above.
func stateText(s *Stream) string {
	if s.Unreachable || s.Reason == "" {
		return s.State
	}
	why := s.Reason
	if s.AwaitsCRD() {
		why = AwaitsCRD
	}
	if s.DidYouMean != "" {
		why += ", did you mean " + s.DidYouMean + "?"
	}
	return s.State + " (" + why + ")"
}

// pathText is a path, or other where it names no file.
func pathText(path, other string) string {
	if path == "" || path == config.Stdout {
		return other
	}
	return path
}

// journalText says how far the journal reaches.
func journalText(j *Journal, now time.Time) string {
	text := fmt.Sprintf("up to seq %d", j.Seq)
	if !j.Oldest.IsZero() {
		text += fmt.Sprintf(", back to %s (%s)", j.Oldest.UTC().Format(time.RFC3339), Age(now, j.Oldest))
	}
	if j.Segments > 1 {
		text += fmt.Sprintf(", %d files", j.Segments)
	}
	return text + freeText(j.Space)
}

// freeText is the free space as the end of a list, "" where it is not known.
func freeText(s Space) string {
	if s.Size == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of %s free", terminal.Bytes(s.Free), terminal.Bytes(s.Size))
}

// agoOr is how long ago something was, or - where it never was.
func agoOr(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return ago(now, at)
}

// plain keeps what others have sent from acting on the terminal, or on the table.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
