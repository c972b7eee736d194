package takeover

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// The annotations of the Lease. positionsKey has the positions by stream, as JSON, compressed with gzip, in base64.
// termKey has the number of the term.
const (
	positionsKey = "kubejournal/positions"
	termKey      = "kubejournal/term"
)

const (
	maxAnnotations = 256 << 10 // bytes of names and values that the server takes, of all annotations together
	maxPacked      = 192 << 10 // bytes of positions, packed: some 15,000 streams
	maxContent     = 2 << 20   // the same as JSON, which a replica reads whole
	minPacked      = 256       // what AnyOther takes alone, at most
	sparedBytes    = 1 << 10   // bytes of annotations that stay free
)

// room is how many bytes a Lease has for packed positions, beside its other annotations.
func room(l *coordinationv1.Lease) int {
	left := maxAnnotations - sparedBytes - len(positionsKey) - len(termKey) - len(strconv.Itoa(maxTerm))
	for name, value := range l.Annotations {
		if name != positionsKey && name != termKey {
			left -= len(name) + len(value)
		}
	}
	return max(minPacked, min(left, maxPacked))
}

// fit packs as many positions as there is room for, and returns how many it leaves out, for which AnyOther stands. That
// a server was restored is left out last, and first what AnyOther says too.
func fit(positions Positions, room int) (packed string, left int) {
	text := marshal(positions)
	packed = compress(text)
	if len(packed) <= room && len(text) <= maxContent {
		return packed, 0
	}
	var names, restored []string
	for _, name := range slices.Sorted(maps.Keys(positions)) { // the same ones are left out each time
		switch position := positions[name]; {
		case name == AnyOther:
		case position == unnamed:
			left++
		case position.Restored > 0:
			restored = append(restored, name)
			fallthrough
		default:
			names = append(names, name)
		}
	}
	n := len(restored) + len(names)
	pack := func() {
		some := Positions{AnyOther: unnamed}
		for _, name := range restored[:min(n, len(restored))] {
			some[name] = Position{Begun: true, Term: byOthers, Restored: positions[name].Restored}
		}
		for _, name := range names[:max(0, n-len(restored))] {
			some[name] = positions[name]
		}
		text = marshal(some)
		packed = compress(text)
	}
	for pack(); n > 0 && (len(packed) > room || len(text) > maxContent); pack() {
		share := min(float64(room)/float64(len(packed)), float64(maxContent)/float64(len(text)))
		n = min(n-1, int(0.98*share*float64(n)))
	}
	return packed, left + len(names) - max(0, n-len(restored))
}

func marshal(positions Positions) []byte {
	if len(positions) == 0 {
		return nil
	}
	text, err := json.Marshal(positions)
	if err != nil {
		panic(err) // of strings
	}
	return text
}

func compress(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	var b strings.Builder
	to := base64.NewEncoder(base64.StdEncoding, &b)
	z, _ := gzip.NewWriterLevel(to, gzip.BestSpeed) // the level is valid
	_, _ = z.Write(text)                            // a strings.Builder takes everything
	_ = z.Close()
	_ = to.Close()
	return b.String()
}

// damage is why positions cannot be decoded.
type damage struct {
	cause string // the same for all damage of its kind
	err   error  // nil where the cause says all
}

func (d *damage) Error() string {
	if d.err == nil {
		return d.cause
	}
	return d.cause + ": " + d.err.Error()
}

func (d *damage) Unwrap() error { return d.err }

// decode unpacks positions. The error is a *damage.
func decode(packed string) (Positions, error) {
	if packed == "" {
		return nil, nil
	}
	content, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, &damage{"not base64", err}
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, &damage{"not gzip", err}
	}
	content, err = io.ReadAll(io.LimitReader(z, maxContent+1))
	switch {
	case err != nil:
		return nil, &damage{"not gzip", err}
	case len(content) > maxContent: // the rest is not read: anybody who may write the Lease can pack gigabytes
		return nil, &damage{fmt.Sprintf("larger than %d MiB", maxContent>>20), nil}
	}
	var positions Positions
	if err := json.Unmarshal(content, &positions); err != nil {
		return nil, &damage{"not JSON", err}
	}
	return positions, nil
}

// maxTerm bounds the number of terms, within what JSON readers take as an exact integer. A larger one was not written
// by a replica.
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
