//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

var errLinuxOnly = errors.New("read /proc: the comparison runs on Linux only")

func attributes() *syscall.SysProcAttr     { return nil }
func cpuTime(int) (time.Duration, error)   { return 0, errLinuxOnly }
func peakRSS(int) (bytes int64, err error) { return 0, errLinuxOnly }
