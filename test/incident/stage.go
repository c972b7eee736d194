package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

const (
	patience  = 3 * time.Minute // for anything to come about, on a busy machine too
	timeLimit = 30 * time.Minute

	configFile = "kubejournal.yaml"
)

//go:embed manifests
var manifests embed.FS

// incident is the stage and what has happened on it.
type incident struct {
	out  string // the folder that stays: kubejournal's, the ledger, the pictures
	work string // everything else; removed in the end
	bin  string // programs that the Makefile builds

	cluster     *cluster.Cluster
	client      dynamic.Interface
	transports  []*http.Client
	controllers []*program.Process
	kubelets    *kubelets
	door        *door
	program     string           // kubejournal
	daemon      *program.Process // its latest run
	only        bool             // the endings are all that is played
	ledger      Ledger

	between  time.Time // the two edits of a config map
	settings string    // that config map then, as kubectl shows it
	deleted  []deletedObject

	moments  int // are recorded
	recorded []*snapshot
}

// setUp starts the control plane, its controllers and nodes, and kubejournal beside them.
func (x *incident) setUp(ctx context.Context) error {
	root, err := program.Root()
	if err != nil {
		return err
	}
	x.bin = filepath.Join(root, "bin")
	if x.work, err = os.MkdirTemp("", "kubejournal-incident-"); err != nil {
		return err
	}
	files, err := fs.Sub(manifests, "manifests")
	if err == nil {
		err = errors.Join(os.CopyFS(x.work, files), x.emptyOut())
	}
	if err != nil {
		return err
	}
	if x.program == "" {
		if x.program, err = program.Build(ctx, x.work); err != nil {
			return err
		}
	}
	if x.cluster, err = cluster.Start(ctx,
		cluster.Options{TimeLimit: timeLimit, Audit: cluster.AuditWrites}); err != nil {
		return err
	}
	person, err := x.as("incident/v1")
	if err != nil {
		return err
	}
	x.client = person.client
	if err := x.startControllers(ctx); err != nil {
		return err
	}
	if err := x.makeDoor(); err != nil {
		return err
	}
	return x.startDaemon(ctx)
}

// emptyOut makes the folder that stays, in the place of one that an incident left, and puts kubejournal's config there.
func (x *incident) emptyOut() error {
	config, err := manifests.ReadFile("manifests/" + configFile)
	if err != nil {
		return err
	}
	if old, err := os.ReadDir(x.out); err == nil && len(old) > 0 {
		if _, err := os.Stat(filepath.Join(x.out, configFile)); err != nil {
			return fmt.Errorf("%s is no folder of an incident: %w", x.out, err)
		}
	}
	return errors.Join(os.RemoveAll(x.out), os.MkdirAll(x.out, 0o750),
		os.WriteFile(filepath.Join(x.out, configFile), config, 0o600))
}

// clear ends everything.
func (x *incident) clear() error {
	var err error
	x.daemon.End()
	x.stopControllers()
	if x.door != nil {
		x.door.shut()
	}
	for _, t := range x.transports {
		t.CloseIdleConnections()
	}
	if x.cluster != nil {
		err = x.cluster.Close()
	}
	if x.work != "" {
		err = errors.Join(err, os.RemoveAll(x.work))
	}
	return err
}

// startControllers starts what makes pods of a Deployment and has them run, and returns when the nodes are ready.
func (x *incident) startControllers(ctx context.Context) error {
	kubeconfig := "--kubeconfig=" + x.cluster.Kubeconfig()
	for _, args := range [][]string{
		{
			"kube-controller-manager", kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=100",
			"--root-ca-file=" + x.cluster.RESTConfig().CAFile, "--flex-volume-plugin-dir=" + x.work,
			"--horizontal-pod-autoscaler-sync-period=3s", "--horizontal-pod-autoscaler-downscale-stabilization=1s",
			"--node-monitor-grace-period=" + timeLimit.String(), // nobody says every few seconds that a node is alive
		},
		{"kube-scheduler", kubeconfig, "--leader-elect=false", "--secure-port=0"},
	} {
		path := filepath.Join(x.bin, x.cluster.Variant().Kubernetes, args[0])
		cmd := exec.Command(path, args[1:]...)
		cmd.Dir = x.work
		p, err := program.Start(cmd, filepath.Join(x.work, args[0]+".log"))
		if err != nil {
			return fmt.Errorf("%w (make incident builds it)", err)
		}
		x.controllers = append(x.controllers, p)
	}
	kubelet, err := x.as("kubelet/v1")
	if err != nil {
		return err
	}
	x.kubelets = startKubelets(kubelet.client)
	x.ledger.begin("Nodes are made")
	takesPods := func(name string) func(context.Context) error {
		return x.becomes(object{nodes, "", name}, "/spec/taints", nil)
	}
	if err := all(x.types("apply -f nodes.yaml"), takesPods("node-a"), takesPods("node-b"))(ctx); err != nil {
		return err
	}
	x.ledger.end()
	return nil
}

func (x *incident) stopControllers() {
	for _, p := range x.controllers {
		p.End()
	}
	if x.kubelets != nil {
		x.kubelets.stop()
	}
}

// startDaemon starts kubejournal and returns when all of its streams watch.
func (x *incident) startDaemon(ctx context.Context) (err error) {
	cmd := exec.Command(x.program, "run", "--config", configFile, "--kubeconfig",
		filepath.Join(x.work, "door.kubeconfig"))
	cmd.Dir = x.out
	if x.daemon, err = program.Start(cmd, filepath.Join(x.out, "kubejournal.log")); err != nil {
		return err
	}
	return x.watching(ctx, "pods")
}

// watching waits until kubejournal is ready, and watches a stream beside all that it has.
func (x *incident) watching(ctx context.Context, name string) error {
	return x.daemon.Wait(ctx, patience, "kubejournal watches "+name, func() error {
		err := x.daemon.Ready(ctx)
		streams, streamsErr := x.daemon.Streams(ctx)
		if err := errors.Join(err, streamsErr); err != nil {
			return err
		}
		known := false
		for _, s := range streams {
			if s.State != program.Watching {
				return fmt.Errorf("%s is %s: %s", s.Stream, s.State, s.Reason)
			}
			known = known || s.Stream == name
		}
		if !known {
			return errors.New("there is no such stream")
		}
		return nil
	})
}

// eventually waits for what the cluster does, as long as its controllers run.
func (x *incident) eventually(ctx context.Context, what string, try func() error) error {
	return program.Eventually(ctx, patience, what, func() error {
		for _, p := range x.controllers {
			if !p.Alive() {
				return program.Final(p.Fault(program.ErrEnded))
			}
		}
		return try()
	})
}

func (x *incident) in(o object) dynamic.ResourceInterface {
	return x.client.Resource(o.GroupVersionResource).Namespace(o.namespace)
}

// await waits until an object is as it should be.
func (x *incident) await(ctx context.Context, o object, what string, is func(map[string]any) bool) error {
	return x.eventually(ctx, what, func() error {
		got, err := x.in(o).Get(ctx, o.name, metav1.GetOptions{})
		if err == nil && !is(got.Object) {
			err = fmt.Errorf("it is %v", got.Object)
		}
		return err
	})
}

// types has kubectl do what a person would type, in the folder with the manifests.
func (x *incident) types(command string, environ ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		x.ledger.typed(strings.Join(append(environ, "kubectl "+command), " "))
		_, err := x.kubectl(ctx, command, environ...)
		return err
	}
}

func (x *incident) kubectl(ctx context.Context, command string, environ ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(x.bin, "kubectl"), strings.Fields(command)...)
	cmd.Dir, cmd.Env = x.work, program.Environ(x.work, append(environ, "KUBECONFIG="+x.cluster.Kubeconfig())...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", command, err, out)
	}
	return string(out), nil
}

// makeDoor writes a kubeconfig for kubejournal that leads to the API server by a way that can be shut.
func (x *incident) makeDoor() error {
	config := x.cluster.RESTConfig()
	server, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	x.door = &door{to: server.Host, shut: func() {}}
	if err := x.door.open(); err != nil {
		return err
	}
	config.Host = "https://" + x.door.address
	return cluster.WriteKubeconfig(filepath.Join(x.work, "door.kubeconfig"), config)
}

// door forwards connections while it is open, and nobody listens there while it is shut.
type door struct {
	to, address string
	shut        context.CancelFunc
}

// open listens where it did before. The port is below those that the kernel gives to clients, one of which would else
// sooner or later be the one that it dials.
func (d *door) open() (err error) {
	for range 100 {
		var listener net.Listener
		if listener, err = net.Listen("tcp",
			cmp.Or(d.address, fmt.Sprintf("127.0.0.1:%d", 30000+rand.IntN(2000)))); err == nil {
			d.address = listener.Addr().String()
			var open context.Context
			open, d.shut = context.WithCancel(context.Background())
			context.AfterFunc(open, func() { listener.Close() })
			go d.serve(open, listener)
			return nil
		}
	}
	return fmt.Errorf("open door: %w", err)
}

func (d *door) serve(open context.Context, listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // shut
		}
		server, err := net.Dial("tcp", d.to)
		if err != nil {
			client.Close()
			continue
		}
		context.AfterFunc(open, func() { client.Close(); server.Close() })
		go pass(client, server)
		go pass(server, client)
	}
}

// pass copies until one end is closed, and closes both.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // an end like any other
	from.Close()
	to.Close()
}
