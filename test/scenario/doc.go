// Package scenario runs the kubejournal program against a real control plane and proves its journal.
//
// The program is a black box: a subprocess built with the race detector, a config file, a journal file, /readyz. While
// writers change objects and remember what the server acknowledged, a scenario stops, kills and restores what it likes.
// Each ends in verify, which waits until the journal has caught up with the server and then runs all of test/invariant,
// and looks for Secret values in all that the program wrote.
//
// Two clusters serve all scenarios of a test process, at the same time. One is for scenarios that disturb it or watch
// all of it, one after the other; the others share the second, in namespaces of their own.
package scenario
