// Package filter decides in CEL what is written of a stream.
package filter

import (
	"cel.dev/cel-go/cel"
	"github.com/fsnotify/fsnotify"
)

var (
	_ = cel.NewEnv
	_ = fsnotify.NewWatcher
)
