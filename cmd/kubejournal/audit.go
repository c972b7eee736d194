package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/person"
	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/terminal"
)

func newAuditCommand() *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "audit FILE...",
		Short: "Learn from audit logs which user made which change",
		Long: `Read audit logs of the API server, and write beside the journal which user made which of its lines. From then on 'history',
'diff', 'blame', 'why', 'get --deleted' and 'tail' (of the lines that were there when it began) show the user. The file is
called like the journal, with .audit at the end.

A FILE has events of audit.k8s.io/v1 as JSON, one a line, plain or gzip; - is stdin. So it may have the records in which
clouds export them: CloudWatch (EKS), diagnostic logs and their tables (AKS), Cloud Logging (GKE).

A line gets a user where a request certainly made it, or where one alone fits; where two fit, nobody is named. Logs at
the level RequestResponse have the uid and the version that were written, so that a line can be told exactly; at Metadata
it is found by name, program and second. Of the objects in a log nothing is kept.

Name the logs of all API servers of the cluster at once: each logs its own requests. Where a server's log is missing, a
request of another may be the one that fits, and a user is named who did not make the line.

Logs may be read again, and may overlap: what is known stays. A line of a log that cannot be read is named and passed over.
` + journalHelp + `

Exit status: 0; 2 for a usage or config fault; 1 if a file could not be read to its end, or the result not be written.`,
		Example: `  kubejournal audit /var/log/kubernetes/audit*.log*

  # EKS: what CloudWatch has of the last hour
  aws logs filter-log-events --log-group-name /aws/eks/prod/cluster --log-stream-name-prefix kube-apiserver-audit \
    --start-time "$(date -d -1hour +%s000)" | kubejournal audit -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name audit logs, or - for stdin")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := f.paths()
			if err != nil {
				return err
			}
			var q answering
			return q.run(cmd.Context(), func() error {
				requests, failed := readAudit(cmd, args)
				for _, path := range paths {
					if err := auditJournal(cmd, path, requests); err != nil {
						return err
					}
				}
				if failed {
					return statusError(exitFault)
				}
				return cmd.Context().Err()
			})
		},
	}
	f.addJournal(cmd)
	return cmd
}

// readAudit reads audit logs. It says what could not be read.
func readAudit(cmd *cobra.Command, files []string) (requests *person.Requests, failed bool) {
	requests = person.New()
	var all audit.Count
	for _, name := range files {
		var in io.Reader = cmd.InOrStdin()
		var f disk.File
		if name != "-" {
			var err error
			if f, err = disk.OS.OpenFile(name, os.O_RDONLY, 0); err != nil {
				terminal.Note(cmd.ErrOrStderr(), err.Error())
				failed = true
				continue
			}
			in = io.NewSectionReader(f, 0, math.MaxInt64)
		}
		n, err := audit.Read(in, requests.Add, func(line int, why string) {
			terminal.Note(cmd.ErrOrStderr(), fmt.Sprintf("%s: line %d: %s", name, line, why))
		})
		if f != nil {
			_ = f.Close() // it was only read
		}
		if all.Add(n); err != nil {
			terminal.Note(cmd.ErrOrStderr(), fmt.Sprintf("%s cannot be read to its end: %v", name, err))
			failed = true
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s in %s, of which %d may have written\n",
		terminal.Count(all.Events, "event", "events"), terminal.Count(len(files), "file", "files"), all.Writes)
	if all.Damaged+all.Others > 0 {
		terminal.Note(cmd.ErrOrStderr(), fmt.Sprintf("%s cannot be read; %s no audit event",
			terminal.Count(all.Damaged, "line", "lines"), terminal.Count(all.Others, "record has", "records have")))
	}
	return requests, failed
}

// auditJournal adds to the file beside a journal who made its lines.
func auditJournal(cmd *cobra.Command, path string, requests *person.Requests) error {
	j, err := archive.Open(path, func(text string) { terminal.Note(cmd.ErrOrStderr(), text) })
	if err != nil {
		return err
	}
	defer j.Close()
	if j.Empty() {
		return errors.New("journal " + path + " has no line yet")
	}
	is, err := requests.Match(cmd.Context(), j)
	if err != nil {
		return err
	}
	changed, err := audit.Merge(j.Path(), j.Segments[0].FirstSeq, is.Entries)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s in the time of the logs: %d exact, %d by uid, %d by name and time; "+
		"several requests fit %d\n", terminal.Count(is.Lines, "line", "lines"), is.Named[audit.Exact],
		is.Named[audit.UID], is.Named[audit.Name], is.Several)
	if changed {
		fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", terminal.Line(segment.AuditPath(j.Path())))
	} else {
		fmt.Fprintln(cmd.ErrOrStderr(), "kubejournal: nothing new")
	}
	return nil
}
