// Package cluster runs a real Kubernetes control plane, kube-apiserver and etcd, for tests and for the demo.
//
// Both programs are built from Go modules pinned in test/controlplane (see Build), so a machine with only Go can run
// them; there is no kubelet, no scheduler and no controller manager. What follows from that: pods stay Pending, a
// deployment makes no pods, a deleted namespace stays Terminating, and nothing collects garbage. What a client asks of
// the API itself (lists, watches, history, RBAC, admission, custom resources) is the real thing.
//
// The API server still writes by itself: its identity lease every ten seconds, and its bootstrap objects after each
// start. So the resourceVersion moves without a test's doing.
//
// History goes only when a test says so: the API server's own compaction of etcd is off, and Compact does it. An API
// server also keeps recent history in memory; it forgets that when it restarts, but not at a Compact.
//
// # Who ends the servers
//
// A Cluster belongs to whoever called Start, and Close ends it: both servers are killed by their own process id, and
// the folder with their data, logs and credentials is removed. Without a Close the servers end at the time limit, and
// on Linux also with the process that started them, even if that was killed; then the folder stays after.
//
// The package runs on Unix systems only: it needs signals and file locks.
package cluster
