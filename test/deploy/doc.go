// Package deploy tests what deploy/ holds with the tools and the servers that will read it: kustomize and Helm render
// the manifests, a real API server takes them, and the daemon runs with the rights in them.
package deploy
