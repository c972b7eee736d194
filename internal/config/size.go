package config

import (
	"math"
	"regexp"
	"strconv"
)

var sizeForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(([kMGT]|[KMGT]i)?B?)$`)

// sizeUnit maps what may follow a number, but for a B, to bytes.
var sizeUnit = map[string]uint64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// parseSize reads a size in bytes as Kubernetes spells its quantities, in whole numbers, with or without a B behind.
func parseSize(text string) (bytes int64, ok bool) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	unit := sizeUnit[m[3]]
	if err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return int64(n * unit), true
}
