package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
)

// checkpointEnv is the variable behind --checkpoint.
const checkpointEnv = "KUBEJOURNAL_CHECKPOINT"

func newCheckpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Look at the positions that are kept over a restart, or forget one",
		Long: `Show or change the checkpoint while no daemon runs with it. A running daemon locks the file: use 'kubejournal status', or
/streams on its listen address.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(newCheckpointShowCommand(), newCheckpointResetCommand())
	return cmd
}

// checkpointFlags say where the checkpoint is.
type checkpointFlags struct{ path, config string }

func (f *checkpointFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.path, "checkpoint", "", "checkpoint file `PATH` (default: $"+checkpointEnv+", else checkpoint.path of the config)")
	flags.StringVar(&f.config, "config", "", "config `FILE` (default: as for run)")
}

// find returns the path of the checkpoint: the flag's, else the variable's, else that of the config that run would read.
func (f *checkpointFlags) find(cmd *cobra.Command) (string, error) {
	if f.path != "" {
		return f.path, nil
	}
	if path := os.Getenv(checkpointEnv); path != "" {
		return path, nil
	}
	file, err := configPath(f.config, nil, os.LookupEnv)
	if err != nil {
		return "", &usageError{cmd, errors.New("no checkpoint named; name one with --checkpoint PATH, or its config with --config FILE")}
	}
	cfg, err := config.Load(file, config.Overrides{}, os.LookupEnv)
	if err != nil {
		return "", err
	}
	if cfg.Checkpoint.Path == "" {
		return "", &usageError{cmd, fmt.Errorf("%s keeps no checkpoint: its checkpoint.path is empty; name one with --checkpoint PATH", file)}
	}
	return cfg.Checkpoint.Path, nil
}

// explainCheckpoint adds to the error of opening a checkpoint what can be done about it.
func explainCheckpoint(path string, err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		return fmt.Errorf("checkpoint %s is held by a running kubejournal; 'kubejournal status' shows its streams, as does /streams on its listen address", path)
	case errors.Is(err, checkpoint.ErrDamaged):
		return fmt.Errorf("%w; the next run sets it aside and begins a new one, with a GAP line for each stream", err)
	case errors.Is(err, checkpoint.ErrNewerSchema):
		return fmt.Errorf("%w; use that version", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("checkpoint %s: no such file", path)
	}
	return err
}

func newCheckpointShowCommand() *cobra.Command {
	var (
		where  checkpointFlags
		output string
	)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the position of each stream and how many objects it knows",
		Long: `Show what a checkpoint holds: its cluster, how far the journal was written at the last commit, and for each stream the
resourceVersion up to which everything is in the journal and the number of objects that exist as far as it was written.
The file is neither changed nor created.

A stream is in one of these states:
  synced      everything up to its position is in the journal
  first sync  the snapshot of what exists is not complete
  gap owed    its position is not valid any more; the next run begins with a GAP line
  gap open    the GAP line is in the journal, the SYNCED line that ends the gap is not
  reset       'checkpoint reset' has forgotten it since the last run

Exit status: 0, 2 for a usage or config fault, 1 if the file cannot be read or a daemon holds it.`,
		Example: `  kubejournal checkpoint show --checkpoint /var/lib/kubejournal/kubejournal.db

  # the one that a config names, for a program
  kubejournal checkpoint show --config kubejournal.yaml -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf(cmd, "--output", output, "table", "json"); err != nil {
				return err
			}
			path, err := where.find(cmd)
			if err != nil {
				return err
			}
			shown, err := readCheckpoint(path)
			if err != nil {
				return explainCheckpoint(path, err)
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), shown)
			}
			return writeTable(cmd.OutOrStdout(), shown)
		},
	}
	where.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table or json")
	return cmd
}

// shownCheckpoint is what checkpoint show shows, as -o json writes it.
type shownCheckpoint struct {
	Path    string          `json:"path"`
	Size    int64           `json:"size"` // bytes
	Cluster string          `json:"cluster,omitempty"`
	Schema  uint64          `json:"schema"`
	Lost    bool            `json:"lost,omitempty"` // an earlier one was
	Journal checkpoint.Mark `json:"journal"`
	// Recovered is the seq up to which a start had read the journal back when it was
	// interrupted.
	Recovered uint64        `json:"recovered,omitempty"`
	Streams   []shownStream `json:"streams"`
}

type shownStream struct {
	Stream          string          `json:"stream"`
	ResourceVersion string          `json:"resourceVersion,omitempty"`
	State           string          `json:"state"`
	Reason          string          `json:"reason,omitempty"` // of the gap that is owed
	Gap             *checkpoint.Gap `json:"gap,omitempty"`    // the open one
	Known           int             `json:"known"`            // objects
}

// The states of a stream in a checkpoint.
const (
	stateSynced    = "synced"
	stateFirstSync = "first sync"
	stateGapOwed   = "gap owed"
	stateGapOpen   = "gap open"
	stateReset     = "reset"
)

// readCheckpoint reads everything before it returns, so that the file is not locked while it is printed.
func readCheckpoint(path string) (*shownCheckpoint, error) {
	store, err := checkpoint.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // only read from
	c := &shownCheckpoint{Path: path}
	if c.Schema, err = store.Schema(); err != nil {
		return nil, err
	}
	info, err := os.Stat(store.Path())
	if err != nil {
		return nil, err
	}
	c.Size = info.Size()
	if c.Cluster, err = store.Cluster(); err != nil {
		return nil, err
	}
	if c.Lost, err = store.Lost(); err != nil {
		return nil, err
	}
	if c.Journal, err = store.Mark(); err != nil {
		return nil, err
	}
	interrupted, _, err := store.Recovery()
	if err != nil {
		return nil, err
	}
	c.Recovered = interrupted.Mark.Seq
	c.Streams, err = readStreams(store)
	return c, err
}

// readStreams returns every stream that the checkpoint has anything of, by name.
func readStreams(store *checkpoint.Store) ([]shownStream, error) {
	states, err := store.Streams()
	if err != nil {
		return nil, err
	}
	forgotten, err := store.Forgotten()
	if err != nil {
		return nil, err
	}
	knowing, err := store.Knowing()
	if err != nil {
		return nil, err
	}
	names := slices.Concat(knowing, slices.Collect(maps.Keys(states)), slices.Collect(maps.Keys(forgotten)))
	slices.Sort(names)
	streams := []shownStream{}
	for _, name := range slices.Compact(names) {
		st, written := states[name]
		s := shownStream{Stream: name, ResourceVersion: st.ResourceVersion, Reason: string(st.PendingGap), Gap: st.Open}
		if s.Known, err = store.Count(name); err != nil {
			return nil, err
		}
		switch {
		case st.PendingGap != "":
			s.State = stateGapOwed
		case st.Open != nil:
			s.State = stateGapOpen
		case st.ResourceVersion != "":
			s.State = stateSynced
		case forgotten[name] && !written && s.Known == 0:
			s.State = stateReset
		default:
			s.State = stateFirstSync
		}
		streams = append(streams, s)
	}
	return streams, nil
}

func writeJSON(w io.Writer, c *shownCheckpoint) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}

func writeTable(w io.Writer, c *shownCheckpoint) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "path\t%s\n", c.Path)
	fmt.Fprintf(t, "size\t%d bytes\n", c.Size)
	fmt.Fprintf(t, "schema\t%d\n", c.Schema)
	fmt.Fprintf(t, "cluster\t%s\n", orDash(c.Cluster))
	journal := "-"
	if c.Journal.Seq > 0 {
		journal = fmt.Sprintf("committed up to seq %d", c.Journal.Seq)
	}
	fmt.Fprintf(t, "journal\t%s\n", journal)
	if c.Recovered > 0 {
		fmt.Fprintf(t, "recovery\tinterrupted at seq %d; the next start goes on there\n", c.Recovered)
	}
	if c.Lost {
		fmt.Fprintln(t, "lost\tan earlier checkpoint was; a stream that is new in this one begins with a GAP line")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(c.Streams) == 0 {
		_, err := fmt.Fprintln(w, "\nno streams yet")
		return err
	}
	fmt.Fprintln(t, "\nSTREAM\tPOSITION\tSTATE\tKNOWN")
	for _, s := range c.Streams {
		state := s.State
		switch {
		case s.Reason != "":
			state += ": " + s.Reason
		case s.Gap != nil:
			state += fmt.Sprintf(": %s to %s", orDash(s.Gap.FromResourceVersion), s.Gap.ResourceVersion)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\n", s.Stream, orDash(s.ResourceVersion), state, s.Known)
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newCheckpointResetCommand() *cobra.Command {
	var where checkpointFlags
	cmd := &cobra.Command{
		Use:   "reset STREAM",
		Short: "Forget one stream, so that the next run begins it anew",
		Long: `Forget the position of one stream and the objects that it knows. The next run begins it as new, with a snapshot of what
exists, or with nothing where its entry says initial: skip. What happens between its last line and that start is not in
the journal, and objects deleted in between get no DELETED line. The journal and the other streams are not touched.

The daemon must be stopped. After a crash, too, nothing of the stream comes back: lines that the last commit did not
cover stay in the journal and are ignored by the next start. The reset is one transaction: all or nothing.

STREAM is the name as in 'checkpoint show'.

Exit status: 0, 2 for a usage or config fault, 1 if there is no such stream, the file cannot be changed or a daemon holds
it.`,
		Example: `  kubejournal checkpoint reset pods --checkpoint kubejournal.db

  # one namespace of a resource, with the quotes that a shell wants
  kubejournal checkpoint reset 'deployments.apps?namespace=web' --config kubejournal.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return &usageError{cmd, errors.New("takes the name of one stream; 'kubejournal checkpoint show' lists them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := where.find(cmd)
			if err != nil {
				return err
			}
			forgotten, err := resetStream(path, args[0])
			if err != nil {
				return explainCheckpoint(path, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: forgot position %s and %d known objects; the next run begins it anew\n",
				forgotten.Stream, orDash(forgotten.ResourceVersion), forgotten.Known)
			return err
		},
	}
	where.add(cmd)
	return cmd
}

// resetStream forgets one stream and returns what it was. To forget it again changes nothing.
func resetStream(path, name string) (was shownStream, err error) {
	store, err := checkpoint.OpenExisting(path)
	if err != nil {
		return was, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	streams, err := readStreams(store)
	if err != nil {
		return was, err
	}
	names := make([]string, len(streams))
	for i, s := range streams {
		if names[i] = s.Stream; s.Stream == name {
			return s, store.Forget(name)
		}
	}
	if len(names) == 0 {
		return was, fmt.Errorf("checkpoint %s has no stream %q; it has none at all", path, name)
	}
	return was, fmt.Errorf("checkpoint %s has no stream %q; it has %s", path, name, strings.Join(names, ", "))
}
