package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"kubejournal/test/program"
)

const nodeAddress = "192.0.2.1" // for documentation, so nobody's

// podAddress is the node's, or another one of its network for each of several pods: all have the same port.
func podAddress(pod *corev1.Pod) string {
	if index := pod.Labels[appsv1.PodIndexLabel]; index != "" {
		return "192.0.2.10" + index
	}
	return nodeAddress
}

// node stands in for what a control plane lacks to run a pod of the manifests, and does no more than such a pod needs:
//   - a scheduler: each pod comes to this node, once its claims are bound;
//   - a provisioner: each claim gets a folder;
//   - a kubelet: it runs the real program in an empty root, as the pod says (arguments, environment, user, mounts with
//     what the server has for them), asks the probes of the manifest and tells the server what they say, brings mounted
//     ConfigMaps up to date, ends the pod by SIGTERM within its grace period, and serves kubectl logs and exec.
//
// What real ones do and this does not: pull an image (the program is there), start a container again, wait between
// probes, limit resources, let a minute pass before a mounted ConfigMap changes, enforce network policies.
//
// Deployments, replica sets, stateful sets, disruption budgets, the binding of claims, namespaces and what is orphaned are kube-controller-manager's, which
// is the real one. The test calls sync again and again; only the kubelet's port has goroutines of its own.
type node struct {
	t       *testing.T
	s       *server
	program string // what the image holds
	dir     string
	pods    map[types.UID]*sandbox
	shown   chan func(map[string]*sandbox) // the kubelet's port asks sync
}

// sandbox is a pod that runs.
type sandbox struct {
	process *process
	command func(args ...string) *exec.Cmd // another one in its container
	config  string                         // folder of the mounted ConfigMap
	ready   bool
	started metav1.Time
}

// startNode registers the node, and has it serve until the test ends.
func startNode(t *testing.T, s *server, program string) *node {
	t.Helper()
	n := &node{t: t, s: s, program: program, dir: t.TempDir(), pods: map[types.UID]*sandbox{}, shown: make(chan func(map[string]*sandbox))}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", n.logs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", n.exec)
	kubelet := httptest.NewTLSServer(mux)
	t.Cleanup(kubelet.Close)
	at, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.Hostname()}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	if _, err := s.client.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// sync brings the node closer to what the server wants.
func (n *node) sync() {
	n.t.Helper()
	claims, err := n.s.client.CoreV1().PersistentVolumeClaims("").List(n.t.Context(), metav1.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Spec.VolumeName == "" {
			n.settle("provision "+c.Name, n.provision(c))
		}
	}
	pods, err := n.s.client.CoreV1().Pods("").List(n.t.Context(), metav1.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	byName := map[string]*sandbox{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Labels["app.kubernetes.io/name"] != "kubejournal" {
			continue // there is no room for others
		}
		box := n.pods[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil:
			n.settle("end "+pod.Name, n.end(pod, box))
			continue
		case pod.Spec.NodeName == "":
			n.settle("schedule "+pod.Name, n.schedule(pod, claims.Items))
		case box == nil:
			n.settle("run "+pod.Name, n.run(pod))
		default:
			n.settle("keep "+pod.Name, n.keep(pod, box))
		}
		byName[pod.Name] = n.pods[pod.UID]
	}
	select {
	case show := <-n.shown:
		show(byName)
	default:
	}
}

// settle lets the next sync try again what failed because the object is another by now.
func (n *node) settle(what string, err error) {
	n.t.Helper()
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		n.t.Fatalf("the node's stand-in: %s: %v", what, err)
	}
}

// provision makes a volume for a claim. kube-controller-manager binds the two.
func (n *node) provision(c *corev1.PersistentVolumeClaim) error {
	folder := filepath.Join(n.dir, "volumes", string(c.UID))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + string(c.UID)}, Spec: corev1.PersistentVolumeSpec{
		Capacity:                      c.Spec.Resources.Requests,
		AccessModes:                   c.Spec.AccessModes,
		ClaimRef:                      &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}},
	}}
	_, err := n.s.client.CoreV1().PersistentVolumes().Create(n.t.Context(), volume, metav1.CreateOptions{})
	return err
}

func (n *node) schedule(pod *corev1.Pod, claims []corev1.PersistentVolumeClaim) error {
	for _, v := range pod.Spec.Volumes {
		bound := func(c corev1.PersistentVolumeClaim) bool {
			return c.Namespace == pod.Namespace && c.Name == v.PersistentVolumeClaim.ClaimName && c.Status.Phase == corev1.ClaimBound
		}
		if v.PersistentVolumeClaim != nil && !slices.ContainsFunc(claims, bound) {
			return nil
		}
	}
	return n.s.client.CoreV1().Pods(pod.Namespace).Bind(n.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
}

// run starts the pod's daemon.
func (n *node) run(pod *corev1.Pod) error {
	folder := filepath.Join(n.dir, "pods", string(pod.UID))
	image := filepath.Join(folder, "image")
	binary, err := os.ReadFile(n.program)
	if err != nil {
		return err
	}
	container := daemon(n.t, pod.Spec)
	targets := map[string]string{}
	for _, m := range container.VolumeMounts {
		targets[m.Name] = filepath.Join(image, m.MountPath)
		if err := os.MkdirAll(targets[m.Name], 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(image, "kubejournal"), binary, 0o755); err != nil { //nolint:gosec // a program
		return err
	}
	box := &sandbox{started: metav1.Now()}
	sources := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		sources[v.Name] = filepath.Join(folder, v.Name)
		switch {
		case v.PersistentVolumeClaim != nil:
			sources[v.Name], err = n.claimed(pod, v.PersistentVolumeClaim.ClaimName)
		case v.ConfigMap != nil:
			box.config = sources[v.Name]
			err = n.refresh(pod, box)
		case v.Projected != nil:
			var files map[string][]byte
			if files, err = n.projected(pod, v.Projected.Sources); err == nil {
				err = publish(sources[v.Name], files)
			}
		default:
			err = fmt.Errorf("volume %s is of a kind that is not known here", v.Name)
		}
		if err != nil {
			return err // a ConfigMap that is not there yet among them: the pod waits for it
		}
	}
	processes := filepath.Join(image, "proc") // each container has it
	if err := os.Mkdir(processes, 0o755); err != nil {
		return err
	}
	mount(n.t, image, image, readOnly)
	mount(n.t, "/proc", processes, readOnly)
	for _, m := range container.VolumeMounts {
		flags := uintptr(0)
		if m.ReadOnly {
			flags = readOnly
		}
		mount(n.t, sources[m.Name], targets[m.Name], flags)
	}
	env := append(environment(n.t, container, pod.Namespace, nodeName), serverEnvironment(n.t, n.s)...)
	s := pod.Spec.SecurityContext
	box.command = func(args ...string) *exec.Cmd {
		return contained(image, uint32(*s.RunAsUser), uint32(*s.RunAsGroup), env, args...) //nolint:gosec // no numbers below 0
	}
	args := slices.Clone(container.Args)
	if address := podAddress(pod); address != nodeAddress { // all pods are in one network
		args = append(args, "--listen", net.JoinHostPort(address, port(container, "http")))
	}
	box.process = start(n.t, box.command(args...))
	n.pods[pod.UID] = box
	return nil
}

// claimed is the folder of a claim, which belongs to the pod's group as the pod asks for.
func (n *node) claimed(pod *corev1.Pod, name string) (string, error) {
	c, err := n.s.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(n.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	folder := filepath.Join(n.dir, "volumes", string(c.UID))
	return folder, errors.Join(os.Chown(folder, 0, int(*pod.Spec.SecurityContext.FSGroup)), os.Chmod(folder, os.ModeSetgid|0o775)) //nolint:gosec // as a kubelet does
}

// projected is what a projected volume holds.
func (n *node) projected(pod *corev1.Pod, sources []corev1.VolumeProjection) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range sources {
		switch {
		case p.ServiceAccountToken != nil:
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: p.ServiceAccountToken.ExpirationSeconds}}
			answer, err := n.s.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(n.t.Context(), pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
			if err != nil {
				return nil, err
			}
			files[p.ServiceAccountToken.Path] = []byte(answer.Status.Token)
		case p.ConfigMap != nil:
			m, err := n.s.client.CoreV1().ConfigMaps(pod.Namespace).Get(n.t.Context(), p.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			for _, item := range p.ConfigMap.Items {
				files[item.Path] = []byte(m.Data[item.Key])
			}
		default: // the downward API; the manifests ask it for nothing else
			files[p.DownwardAPI.Items[0].Path] = []byte(pod.Namespace)
		}
	}
	return files, nil
}

// refresh brings the mounted ConfigMap up to date.
func (n *node) refresh(pod *corev1.Pod, box *sandbox) error {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		m, err := n.s.client.CoreV1().ConfigMaps(pod.Namespace).Get(n.t.Context(), v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		files := map[string][]byte{}
		for name, content := range m.Data {
			files[name] = []byte(content)
		}
		return publish(box.config, files)
	}
	return nil
}

// publish puts files into a volume as a kubelet does: each is a link to one in a folder, and another folder takes the
// place of that all at once. Where nothing has changed it does nothing.
func publish(volume string, files map[string][]byte) error {
	same := len(files) > 0
	for name, content := range files {
		old, err := os.ReadFile(filepath.Join(volume, name))
		same = same && err == nil && string(old) == string(content)
	}
	if same {
		return nil
	}
	if err := os.MkdirAll(volume, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(volume, "..")
	if err != nil {
		return err
	}
	err = os.Chmod(fresh, 0o755) //nolint:gosec // the daemon is another user
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(fresh, name), content, 0o644)) //nolint:gosec // as above
	}
	next := filepath.Join(volume, "..data_tmp")
	err = errors.Join(err, os.Symlink(filepath.Base(fresh), next), os.Rename(next, filepath.Join(volume, "..data")))
	for name := range files {
		if link := os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)); !errors.Is(link, os.ErrExist) {
			err = errors.Join(err, link)
		}
	}
	return err
}

// keep asks the probes, tells the server what has changed, and refreshes what is mounted.
func (n *node) keep(pod *corev1.Pod, box *sandbox) error {
	container := daemon(n.t, pod.Spec)
	probe := func(p *corev1.Probe) bool {
		address := net.JoinHostPort(podAddress(pod), port(container, p.HTTPGet.Port.String()))
		request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+address+p.HTTPGet.Path, nil)
		if err != nil {
			n.t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	if !box.process.Alive() {
		return box.process.Fault(program.ErrEnded)
	}
	ready := probe(container.StartupProbe) && probe(container.LivenessProbe) && probe(container.ReadinessProbe)
	if ready != box.ready || pod.Status.Phase != corev1.PodRunning {
		if err := n.report(pod, box, ready); err != nil {
			return err
		}
		box.ready = ready
	}
	return n.refresh(pod, box)
}

// port is a container's by its name.
func port(c corev1.Container, name string) string {
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	return strconv.Itoa(int(c.Ports[i].ContainerPort))
}

// report is the pod's status as a kubelet writes it.
func (n *node) report(pod *corev1.Pod, box *sandbox, ready bool) error {
	is := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &box.started, HostIP: nodeAddress, PodIP: podAddress(pod), PodIPs: []corev1.PodIP{{IP: podAddress(pod)}}}
	for kind, is := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled: is[true], corev1.PodInitialized: is[true], corev1.ContainersReady: is[ready], corev1.PodReady: is[ready],
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.Now()})
	}
	up := true
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "kubejournal", Image: daemon(n.t, pod.Spec).Image, Ready: ready, Started: &up,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: box.started}},
	}}
	_, err := n.s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(n.t.Context(), pod, metav1.UpdateOptions{})
	return err
}

// end ends the daemon, which must take no longer than its grace period, and takes the pod off the server.
func (n *node) end(pod *corev1.Pod, box *sandbox) error {
	if box != nil {
		began := time.Now()
		box.process.stop()
		if took := time.Since(began); took > time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second {
			n.t.Errorf("%s took %s to end, and would have been killed", pod.Name, took)
		}
		delete(n.pods, pod.UID)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	return n.s.client.CoreV1().Pods(pod.Namespace).Delete(n.t.Context(), pod.Name, now)
}

// find waits for the next sync to tell of a pod.
func (n *node) find(ctx context.Context, pod string) (*sandbox, error) {
	found := make(chan *sandbox, 1)
	select {
	case n.shown <- func(all map[string]*sandbox) { found <- all[pod] }:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	box := <-found
	if box == nil {
		return nil, fmt.Errorf("pod %s does not run here", pod)
	}
	return box, nil
}

// logs serves kubectl logs.
func (n *node) logs(w http.ResponseWriter, r *http.Request) {
	box, err := n.find(r.Context(), r.PathValue("pod"))
	if err == nil && len(r.URL.Query()) > 0 {
		err = fmt.Errorf("%s is not known here", slices.Collect(maps.Keys(r.URL.Query())))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = w.Write(box.process.log()) // a client that has gone does not mind
}

// exec serves kubectl exec.
func (n *node) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, n, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"], options,
		patience, patience, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer makes the node an executor of remotecommand.
func (n *node) ExecInContainer(ctx context.Context, pod, _, _ string, args []string, _ io.Reader, out, problems io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	box, err := n.find(ctx, pod)
	if err != nil {
		return err
	}
	cmd := box.command(args[1:]...)
	cmd.Path, cmd.Stdout, cmd.Stderr = args[0], out, problems
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return utilexec.CodeExitError{Err: exit, Code: exit.ExitCode()}
	}
	return err
}
