package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"time"
)

// report is what all rounds found, by the readers' names.
type report struct {
	options
	date     time.Time
	versions []string
	killed   map[string][]finding
	missed   map[string][]finding
	taken    map[string][]finding
	costs    map[string][]cost
}

// modules are those whose versions say what a peer is.
var modules = map[string][]string{
	"otelcol": {
		"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sobjectsreceiver",
		"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage",
		"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter",
		"go.opentelemetry.io/collector/otelcol",
	},
	"byhand":  {"k8s.io/client-go"},
	"kubectl": {"k8s.io/kubectl"},
}

// versions are those of all parts, as the programs themselves have them.
func (b *bench) versions(ctx context.Context, server string) ([]string, error) {
	out, err := exec.CommandContext(ctx, b.programs["kubejournal"], "version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask kubejournal for its version: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	all := []string{first, "kube-apiserver " + server}
	for _, program := range []string{"otelcol", "byhand", "kubectl"} {
		info, err := buildinfo.ReadFile(b.programs[program])
		if err != nil {
			return nil, fmt.Errorf("read version of %s: %w", program, err)
		}
		for _, module := range modules[program] {
			for _, d := range info.Deps {
				if d.Path == module {
					all = append(all, path.Base(module)+" "+d.Version)
				}
			}
		}
	}
	return append(all, runtime.Version()), nil
}

func (r *report) markdown() string {
	var t strings.Builder
	rounds := "once"
	if r.rounds > 1 {
		rounds = fmt.Sprintf("%d times; \"a to b\" is the least and the most of them", r.rounds)
	}
	fmt.Fprintf(&t, "`make compare ROUNDS=%d`, %s, %s/%s, %d cores. %s. Each scenario was run %s.\n",
		r.rounds, r.date.Format("2006-01-02"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		strings.Join(r.versions, ", "), rounds)

	one := r.killed[keepers[0].name][0]
	fmt.Fprintf(&t, "\n`kill -9` in the middle of %s acknowledged writes at up to %s per second, %s of them "+
		"deletions; back after %s:\n\n",
		thousands(one.Writes), thousands(int(r.rate)), thousands(one.Deletions), r.down)
	rows(&t, keepers, r.killed, "reader | writes lost | repeated | deleted objects never reported",
		func(all []finding) []any {
			return []any{
				spanOf(all, func(f finding) int {
					return f.Lost
				}), spanOf(all, func(f finding) int { return f.Repeated }),
				spanOf(all, func(f finding) int { return f.DeletionsLost }),
			}
		})

	one = r.missed[keepers[0].name][0]
	fmt.Fprintf(&t, "\nDown while %s writes happened, etcd compacted and the API server restarted, back again. The "+
		"net result is %s differences, %s of them deletions:\n\n",
		thousands(r.missing), thousands(one.Net), thousands(one.NetDeletions))
	rows(&t, keepers, r.missed, "reader | differences reported | deletions reported | repeated | objects wrong for "+
		"ever after | deleted objects that stay present | says that there was a gap",
		func(all []finding) []any {
			return []any{
				spanOf(all, func(f finding) int {
					return f.NetTold
				}), spanOf(all, func(f finding) int { return f.NetDeletionsTold }),
				spanOf(all, func(f finding) int {
					return f.Repeated
				}), spanOf(all, func(f finding) int { return f.Wrong }),
				spanOf(all, func(f finding) int { return f.Stale }), gapSaid(all),
			}
		})
	r.footnotes(&t)

	one = r.taken[replicated[0].name][0]
	fmt.Fprintf(&t, "\nTwo replicas, each with files of its own and the default durations, of which the one that "+
		"writes is killed (`kill -9`) in the middle of %s acknowledged writes, %s of them deletions. Both outputs "+
		"together:\n\n", thousands(one.Writes), thousands(one.Deletions))
	rows(&t, replicated, r.taken, "reader | writes lost | repeated | deleted objects never reported | first line of "+
		"the next one after | says that there was a gap", func(all []finding) []any {
		return []any{
			spanOf(all, func(f finding) int { return f.Lost }), spanOf(all, func(f finding) int { return f.Repeated }),
			spanOf(all, func(f finding) int {
				return f.DeletionsLost
			}), fmt.Sprint(spanOf(all, func(f finding) int {
				return int(f.silent.Round(time.Second).Seconds())
			}), " s"),
			gapSaid(all),
		}
	})
	fmt.Fprint(&t,
		"\nWhat kubejournal repeats has the same `id`, and is left out where its commands read both journals.\n")

	slowest, fastest := r.loadRate, 0.0
	for _, costs := range r.costs {
		for _, c := range costs {
			slowest, fastest = min(slowest, c.rate), max(fastest, c.rate)
		}
	}
	fmt.Fprintf(&t, "\n%s updates of %s config maps at %d to %d per second, %.1f KB each as the server sends them; "+
		"each reader alone, medians of %d:\n\n",
		thousands(r.updates), thousands(r.names), int(slowest), int(fastest),
		median(r.costs[raw.name]).bytes/1000, r.rounds)
	fmt.Fprint(&t, "| reader | CPU s per 10,000 events | peak RSS MB | lag p50 / p99 ms | KB written per event |\n| "+
		"--- | --- | --- | --- | --- |\n")
	for _, w := range measured {
		c := median(r.costs[w.name])
		fmt.Fprintf(&t, "| %s | %.2f | %.0f | %.0f / %.0f | %.1f |\n", w.name, c.cpu, c.rss, c.p50, c.p99, c.bytes/1000)
	}
	fmt.Fprint(&t, "\nThe lag is from the sending of a write until the output has it, so the server's work is in it "+
		"as well, and the raw copy's is the least there can be. kubejournal leaves `metadata.managedFields` out, as "+
		"its default is, and adds fields of its own; the others write objects as they come.\n")
	return t.String()
}

func rows(t *strings.Builder, ways []way, found map[string][]finding, header string, figures func([]finding) []any) {
	fmt.Fprintf(t, "| %s |\n|%s\n", header, strings.Repeat(" --- |", strings.Count(header, "|")+1))
	for _, w := range ways {
		fmt.Fprintf(t, "| %s |", w.name)
		for _, f := range figures(found[w.name]) {
			fmt.Fprintf(t, " %v |", f)
		}
		fmt.Fprintln(t)
	}
}

// gapSaid is the least that is true of all rounds.
func gapSaid(all []finding) string {
	said := "yes"
	for _, f := range all {
		switch {
		case !f.gap && !f.logged:
			return "no"
		case !f.gap:
			said = "in its log only"
		}
	}
	return said
}

// footnotes tell what has no column because it should not be.
func (r *report) footnotes(t *strings.Builder) {
	for _, w := range keepers {
		for _, note := range []struct {
			what string
			of   func(finding) int
		}{
			{"documents torn by a kill or unreadable", func(f finding) int { return f.broken }},
			{"changes told that nobody made", func(f finding) int { return f.Invented }},
		} {
			for _, s := range []struct {
				when  string
				found map[string][]finding
			}{{"kill -9", r.killed}, {"gap", r.missed}} {
				if n := spanOf(s.found[w.name], note.of); n.high > 0 {
					fmt.Fprintf(t, "\n%s, %s: %s %s.\n", w.name, s.when, n, note.what)
				}
			}
		}
	}
}

// The tables stand on this page between these lines.
const (
	page  = "docs/comparison.md"
	begin = "<!-- compare:begin -->\n"
	end   = "<!-- compare:end -->"
)

// put puts the tables on the page, or with none only looks whether it has a place for them.
func put(path, tables string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write tables (run this at the root of the repository): %w", err)
	}
	before, rest, found := bytes.Cut(text, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return errors.Join(fmt.Errorf("write tables: %s has no line %q with a line %q after it", path,
			strings.TrimSpace(begin), end))
	}
	if tables == "" {
		return nil
	}
	text = []byte(string(before) + begin + "\n" + tables + "\n" + end + string(after))
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // docs
		return fmt.Errorf("write tables: %w", err)
	}
	return nil
}
