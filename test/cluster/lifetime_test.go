package cluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kubejournal/test/loggingtest"
)

// ownerMode in the environment makes the test binary the process that TestServersEndWithTheirOwner kills.
const ownerMode = "KUBEJOURNAL_CLUSTER_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerMode) != "" {
		ownCluster()
	}
	goleak.VerifyTestMain(loggingtest.Hold(m))
}

// ownCluster starts a cluster, says who its servers are, and waits to be killed.
func ownCluster() {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(pid(&c.apiserver), pid(&c.etcd), c.dir)
	select {}
}

func TestTimeLimit(t *testing.T) {
	c := startCluster(t, Options{TimeLimit: time.Hour})
	left := []int{pid(&c.apiserver), pid(&c.etcd)}
	c.limit.Reset(0) // the hour is over
	await(t, "the servers' end", func() bool { return gone(left[0]) && gone(left[1]) })
	err := c.StartEtcd(t.Context())
	if err == nil || !strings.Contains(err.Error(), "time limit") {
		t.Errorf("start after the time limit: %v", err)
	}
}

func TestServersEndWithTheirOwner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	self, err := os.Executable()
	must(t, err)
	owner := exec.Command(self)
	owner.Env = append(os.Environ(), ownerMode+"=1")
	stdout, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, owner.Process.Kill())
	_ = owner.Wait() // killed: its status is no news
	must(t, err)
	var api, etcd int
	var dir string
	if _, err := fmt.Sscan(line, &api, &etcd, &dir); err != nil {
		t.Fatalf("owner says %q: %v", line, err)
	}
	t.Logf("servers are processes %d and %d", api, etcd)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	await(t, "the servers' end", func() bool { return gone(api) && gone(etcd) })
}

func TestStartFault(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := Start(t.Context(), Options{APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error %v does not show the server's log", err)
	}
	left, err := os.ReadDir(os.TempDir())
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
