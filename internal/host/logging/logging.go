// Package logging makes the daemon's own log and leads the log of the Kubernetes client into it.
package logging

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapio"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kubejournal/internal/host/terminal"
)

// New returns a logger that writes lines of the level and above to w. Every line is written (no sampling: a repeated
// line is news about a fault that lasts), and no stack trace is put where a user reads. The level
// comes with it, to be changed at any time.
func New(level, format string, w zapcore.WriteSyncer) (*zap.Logger, zap.AtomicLevel, error) {
	lowest, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, lowest, fmt.Errorf("parse log level %q: write debug, info, warn or error", level)
	}
	keys := zapcore.EncoderConfig{
		TimeKey:        "time",
		LevelKey:       "level",
		NameKey:        "logger",
		MessageKey:     "msg",
		EncodeTime:     utc,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
	}
	var encoder zapcore.Encoder
	switch format {
	case "json":
		encoder = zapcore.NewJSONEncoder(keys)
	case "console":
		keys.ConsoleSeparator = " "
		encoder = zapcore.NewConsoleEncoder(keys)
	default:
		return nil, lowest, fmt.Errorf("unknown log format %q: write json or console", format)
	}
	locked := zapcore.Lock(&lineWriter{w, format == "json"})
	return zap.New(zapcore.NewCore(encoder, locked, lowest), zap.ErrorOutput(locked)), lowest, nil
}

// lineWriter writes an entry at a time, as one line on which a terminal finds nothing to act on: the console encoder
// writes messages as they are, and JSON may have control characters and such that turn the direction of text.
type lineWriter struct {
	zapcore.WriteSyncer
	json bool
}

func (l *lineWriter) Write(b []byte) (int, error) {
	text, ended := bytes.CutSuffix(b, []byte("\n"))
	if l.json {
		text = terminal.AppendSafeJSON(nil, text)
	} else {
		text = terminal.AppendRaw(nil, text)
	}
	if ended {
		text = append(text, '\n')
	}
	if _, err := l.WriteSyncer.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// utc writes times as the journal's lines have them, so that the two can be laid side by side.
func utc(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000000000Z07:00"))
}

// RouteKubernetes leads what client-go and its neighbours log into log, for the whole process: klog, and the errors
// that nobody could return. klog knows two levels, info and error; its V levels stay out whatever the log's own level
// is, as klog holds them back by a flag of its own that nobody sets: they print whole requests. Call it once, before
// any client is made.
func RouteKubernetes(log *zap.Logger) {
	logger := zapr.NewLogger(log.Named("client-go"))
	klog.SetLogger(logger)
	// Each of the API server's warnings once, not at every request.
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(&zapio.Writer{Log: log, Level: zap.WarnLevel},
		rest.WarningWriterOptions{Deduplicate: true}))
	// In place of klog's own handler, which adds a call stack's worth of names, and of a sleep of 1 ms.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(_ context.Context, err error, msg string, keysAndValues ...any) {
			logger.Error(err, msg, keysAndValues...)
		},
	}
}
