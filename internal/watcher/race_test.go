//go:build race

package watcher_test

// raced says that the race detector is on: it makes the tests some six times slower, and finds in a share of the
// worlds what it would find in all. All of them are run without it.
const raced = true
