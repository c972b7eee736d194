// Package canned is an API server that sends events which were made beforehand,
// so that a benchmark measures who reads them and nothing else. It runs in a
// process of its own: its CPU time must not count as the reader's.
//
// It knows what a reader has to ask before it watches (discovery, the namespace
// kube-system, an empty list), and answers every watch with the same events.
// Any version is accepted as a watch's beginning.
package canned
