package leader

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// The annotations of the Lease. positionsKey has the positions by stream, as JSON, compressed with gzip, in base64; the
// server takes 256 KiB of annotations. termKey has the number of the turn.
const (
	positionsKey = "kubejournal/positions"
	termKey      = "kubejournal/term"
)

// encode packs positions.
func encode(positions map[string]string) string {
	if len(positions) == 0 {
		return ""
	}
	content, err := json.Marshal(positions)
	if err != nil {
		panic(err) // of strings
	}
	var b strings.Builder
	text := base64.NewEncoder(base64.StdEncoding, &b)
	z, _ := gzip.NewWriterLevel(text, gzip.BestSpeed) // the level is valid
	_, _ = z.Write(content)                           // a strings.Builder takes everything
	_ = z.Close()
	_ = text.Close()
	return b.String()
}

// decode unpacks positions.
func decode(packed string) (map[string]string, error) {
	if packed == "" {
		return nil, nil
	}
	content, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, fmt.Errorf("not base64: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("not gzip: %w", err)
	}
	if content, err = io.ReadAll(z); err != nil {
		return nil, fmt.Errorf("not gzip: %w", err)
	}
	var positions map[string]string
	if err := json.Unmarshal(content, &positions); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return positions, nil
}

// maxTerm bounds the number of turns, within what JSON readers take as an exact integer. A larger one was not written by a
// replica.
const maxTerm = 1 << 53

// term is that of a Lease, 0 for none.
func term(l *coordinationv1.Lease) uint64 {
	n, err := strconv.ParseUint(l.Annotations[termKey], 10, 64)
	if err != nil || n > maxTerm {
		return 0
	}
	return n
}

func setTerm(l *coordinationv1.Lease, term uint64) {
	l.Annotations[termKey] = strconv.FormatUint(term, 10)
}
