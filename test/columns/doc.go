// Package columns proves that internal/ask/columns prints every object as a real kube-apiserver does.
//
// The judge is the server: it lists all its resources as Tables, and each row has the object that it was made from.
// Objects are written to etcd, so that they can be in any state, also one that no controller here would bring about or
// that the server refuses by now but may have stored once.
package columns
