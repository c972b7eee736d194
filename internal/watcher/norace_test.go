//go:build !race

package watcher_test

const raced = false
