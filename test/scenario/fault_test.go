package scenario

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubejournal/test/cluster"
)

// edited writes a changed copy of a kubeconfig.
func edited(t *testing.T, kubeconfig string, change func(*clientcmdapi.Config)) string {
	t.Helper()
	c, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	change(c)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// fails runs the program, which must end with status 1 and one line on stderr that has all the words.
func fails(t *testing.T, args []string, words ...string) {
	t.Helper()
	if log := failsLogging(t, args, words...); log != "" {
		t.Errorf("stderr has a log: %q", log)
	}
}

// failsLogging is fails for a program that logs one line before, which it returns.
func failsLogging(t *testing.T, args []string, words ...string) (log string) {
	t.Helper()
	dir := t.TempDir()
	run := launchTeller(t, dir, args...)
	if status := run.exit(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	stderr := run.log()
	if strings.HasPrefix(stderr, "{") {
		log, stderr, _ = strings.Cut(stderr, "\n")
	}
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "kubejournal: ") || !strings.HasSuffix(stderr, "\n") {
		t.Errorf("stderr is not one line of the program: %q", stderr)
	}
	for _, w := range words {
		if !strings.Contains(stderr, w) {
			t.Errorf("%q does not say %q", stderr, w)
		}
	}
	if lines := run.lines(); len(lines) > 0 {
		t.Errorf("%d lines on stdout", len(lines))
	}
	t.Logf("%s", stderr)
	return log
}

// What a user sees when the server cannot be asked.
func TestFaultsOfTheServer(t *testing.T) {
	s := shared.get(t)
	admin := s.Kubeconfig()
	run := func(more ...string) []string { return append([]string{"run", "configmaps"}, more...) }
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		dead := edited(t, admin, func(c *clientcmdapi.Config) {
			for _, each := range c.Clusters {
				each.Server = "https://" + address
			}
		})
		log := failsLogging(t, run("--kubeconfig", dead), "https://"+address, "connection refused")
		if !strings.Contains(log, "waiting for the API server") || !strings.Contains(log, address) {
			t.Errorf("it does not say what it waits for: %q", log)
		}
	})
	t.Run("wrong token", func(t *testing.T) {
		t.Parallel()
		bad := edited(t, admin, func(c *clientcmdapi.Config) {
			for _, each := range c.AuthInfos {
				each.Token = "wrong"
			}
		})
		fails(t, run("--kubeconfig", bad), "does not accept these credentials")
	})
	t.Run("wrong authority", func(t *testing.T) {
		t.Parallel()
		bad := edited(t, admin, func(c *clientcmdapi.Config) {
			for _, each := range c.Clusters {
				each.CertificateAuthority, each.CertificateAuthorityData = "", nil
			}
		})
		fails(t, run("--kubeconfig", bad), "certificate")
	})
	t.Run("no kubeconfig", func(t *testing.T) {
		t.Parallel()
		fails(t, run("--kubeconfig", filepath.Join(t.TempDir(), "none")), "none", "no such file")
	})
	t.Run("no context", func(t *testing.T) {
		t.Parallel()
		fails(t, run("--kubeconfig", admin, "--context", "none"), `context "none" does not exist`)
	})
	t.Run("broken kubeconfig", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "broken")
		if err := os.WriteFile(path, []byte("clusters: 7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, run("--kubeconfig", path), path)
	})
}

// What a user sees when a file cannot be had.
func TestFaultsOfFiles(t *testing.T) {
	s := shared.get(t)
	run := func(more ...string) []string {
		return append([]string{"run", "configmaps", "--kubeconfig", s.Kubeconfig()}, more...)
	}
	folder := t.TempDir()
	missing := filepath.Join(folder, "none", "file")
	for name, tc := range map[string]struct{ flag, path, want string }{ // the path, or its folder, is named
		"output in no folder":     {"--output", missing, "no such file"},
		"output is a folder":      {"--output", folder, "is a directory"},
		"output in proc":          {"--output", "/proc/journal", "/proc/journal"},
		"output is a device":      {"--output", "/dev/full", "not a regular file"},
		"checkpoint in no folder": {"--checkpoint", missing, "no such file"},
		"checkpoint is a folder":  {"--checkpoint", folder, "is a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails(t, run(tc.flag, tc.path), filepath.Dir(tc.path), tc.want)
		})
	}
	t.Run("foreign output", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "letter")
		if err := os.WriteFile(path, []byte("Dear reader,\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, run("--output", path), path, "not a journal")
		if content, err := os.ReadFile(path); err != nil || string(content) != "Dear reader,\n" {
			t.Errorf("the file is now %q (%v)", content, err)
		}
	})
	t.Run("held by another", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, s.Kubeconfig(), []entry{{Kind: configMaps, Namespaces: []string{"default"}}})
		d.start()
		fails(t, run("--checkpoint", d.checkpoint()), d.checkpoint(), "held by another process")
		fails(t, run("--output", d.journal()), d.journal(), "held by another process")
		d.stop()
	})
}

// A checkpoint never resumes against another cluster, and a journal is not read into the checkpoint of one.
func TestCheckpointOfAnotherCluster(t *testing.T) {
	s := shared.get(t)
	other, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	entries := []entry{{Kind: configMaps, Namespaces: []string{"default"}}}
	d := newDaemon(t, s.Kubeconfig(), entries)
	d.start()
	d.stop()
	journal, lines := d.files()[d.journal()], len(d.tell())
	d.configure(other.Kubeconfig(), entries)
	refused := func(words ...string) {
		t.Helper()
		if log := failsLogging(t, []string{"run", "--config", d.config()}, words...); !strings.Contains(log, `"listening"`) {
			t.Errorf("stderr has a log: %q", log)
		}
	}
	refused(d.checkpoint(), "belongs to another cluster")
	kept := d.checkpoint() + ".kept"
	if err := os.Rename(d.checkpoint(), kept); err != nil {
		t.Fatal(err)
	}
	refused(d.journal(), "is the journal of another cluster")
	if err := os.Rename(kept, d.checkpoint()); err != nil {
		t.Fatal(err)
	}
	if now := d.files()[d.journal()]; string(now) != string(journal) {
		t.Error("the journal was written to")
	}
	// With its own cluster it continues as if nothing had been.
	d.configure(s.Kubeconfig(), entries)
	d.start()
	d.stop()
	noGap(t, d.tell())
	if n := len(d.tell()); n != lines {
		t.Errorf("%d lines instead of %d", n, lines)
	}
}
