package answer

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"kubejournal/internal/coverage"
)

// Coverage shows from when to when streams were watched.
func Coverage(streams []coverage.Stream, format string, o *Output) error {
	if format == "json" {
		e := json.NewEncoder(o)
		e.SetIndent("", "  ")
		if streams == nil {
			streams = []coverage.Stream{}
		}
		return e.Encode(streams)
	}
	if len(streams) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STREAM\tFROM\tTO\tFOR\tEND")
	for _, s := range streams {
		for i, in := range s.Intervals {
			name := ""
			if i == 0 {
				name = printable(s.Name)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", name, moment(in.From), moment(in.To), in.To.Sub(in.From).Round(time.Second), ending(&in))
		}
	}
	zone, _ := time.Now().Zone()
	fmt.Fprintf(t, "times are %s\n", zone)
	return t.Flush()
}

// ending says how an interval ended, and what is special about it.
func ending(in *coverage.Interval) string {
	end := in.End
	switch {
	case end == "":
		end = "goes on"
	case in.Differences != nil && *in.Differences == 0:
		end += ", and nothing had changed"
	case in.Differences != nil && *in.Differences == 1:
		end += ", 1 object differed behind it"
	case in.Differences != nil:
		end += fmt.Sprintf(", %d objects differed behind it", *in.Differences)
	}
	if in.Late {
		end = "late; " + end
	}
	return end
}
