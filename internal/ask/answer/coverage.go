package answer

import (
	"fmt"
	"strings"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/host/terminal"
)

// watched is a stream of a cluster, which is named where several are asked, and from when to when it was watched.
type watched struct {
	Cluster string `json:"cluster,omitempty"`
	coverage.Stream
}

// Coverage shows from when to when the selected streams were watched. It returns ErrNotCovered where nothing is known.
func Coverage(all []Asked, format string, o *Output) error {
	var shown []watched
	of, faults := make(map[string]int), make(map[string]error)
	for _, a := range all {
		streams, err := a.Journal.Coverage(a.Selection)
		for i := range streams {
			shown = append(shown, watched{Cluster: a.Cluster, Stream: streams[i]})
		}
		of[a.Cluster], faults[a.Cluster] = len(streams), err
	}
	if len(shown) > 0 || format == "json" && faults[""] == nil {
		if err := writeCoverage(shown, format, o); err != nil {
			return err
		}
	}
	return Each(all, func(a Asked) error {
		switch {
		case faults[a.Cluster] != nil:
			a.Output.Note("%v", faults[a.Cluster])
		case of[a.Cluster] == 0:
			a.Output.Note("no stream was watched that has such objects")
		default:
			return a.Output.Doubt(a.Journal.NotWatched(a.Selection))
		}
		return ErrNotCovered
	})
}

// writeCoverage shows from when to when streams were watched.
func writeCoverage(streams []watched, format string, o *Output) error {
	if format == "json" {
		if streams == nil {
			streams = []watched{}
		}
		return o.JSON(streams, "  ")
	}
	if len(streams) == 0 {
		return nil
	}
	var of zones
	rows := [][]string{nil} // the heading
	for n, s := range streams {
		if s.Cluster != "" && (n == 0 || streams[n-1].Cluster != s.Cluster) {
			rows = append(rows, []string{heading(s.Cluster)})
		}
		for i, in := range s.Intervals {
			name := ""
			if i == 0 {
				name = s.Name
			}
			of.add(in.From, in.To)
			rows = append(rows,
				[]string{name, local(in.From), until(in.From, in.To), long(in.To.Sub(in.From)), ending(&in)})
		}
	}
	rows[0] = []string{"STREAM", fmt.Sprintf("FROM (%s)", of), "TO", "FOR", "END"}
	return writeRows(longNames(rows, o.Width), nil, o)
}

// longNames gives a row of its own to each name that makes a row too wide for a terminal.
func longNames(rows [][]string, width int) [][]string {
	if width == 0 {
		return rows
	}
	left := width
	for n := range rows[0][1:] {
		widest := 0
		for _, row := range rows {
			if len(row) > 1 { // no heading of a cluster
				widest = max(widest, terminal.Columns([]byte(row[n+1])))
			}
		}
		left -= widest + len("  ")
	}
	var all [][]string
	for _, row := range rows {
		if len(row) > 1 && terminal.Columns([]byte(printable(row[0]))) > left {
			all = append(all, row[:1])
			row = append([]string{""}, row[1:]...)
		}
		all = append(all, row)
	}
	return all
}

// local returns a time in the local zone, which the heading names.
func local(t time.Time) string { return t.Local().Format(time.DateTime) }

// until returns the end of an interval, without the day if that is the one on which it began.
func until(from, to time.Time) string {
	if from, to := from.Local(), to.Local(); from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		return to.Format(time.TimeOnly)
	}
	return local(to)
}

// long returns how long something took: 12s, 20m, 1h2m.
func long(d time.Duration) string {
	text := d.Round(time.Second).String()
	if d >= time.Hour {
		text = strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
		return strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
	}
	return strings.TrimSuffix(text, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(text, "m0s")]
}

// ending says how an interval ended, and what is special about it.
func ending(in *coverage.Interval) string {
	end := Why(in.End)
	switch {
	case end == "":
		end = "ongoing"
	case in.Differences != nil && *in.Differences == 0:
		end += ", no difference"
	case in.Differences != nil:
		end += ", " + count(int(*in.Differences), "object") + " differed"
	}
	if in.Late {
		end = "late; " + end
	}
	return end
}
