//go:build !linux

package cluster

// stopped cannot be asked here without taking the process's end from whoever waits for it: the signal has to do.
func stopped(int) (bool, error) { return true, nil }
