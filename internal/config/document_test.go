package config

import (
	"math"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0B": 0, "0MiB": 0, "1": 1, "4096": 4096, "512B": 512,
		"2k": 2000, "2kB": 2000, "3M": 3e6, "3MB": 3e6, "4G": 4e9, "4GB": 4e9, "5T": 5e12, "5TB": 5e12,
		"2Ki": 2048, "2KiB": 2048, "100Mi": 100 << 20, "100MiB": 100 << 20, "4Gi": 4 << 30, "4GiB": 4 << 30, "5TiB": 5 << 40,
		"9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40,
	} {
		if got, ok := parseSize(text); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", " ", "B", "MiB", "-1", "+1", "1.5GiB", "100 MiB", "100mb", "100MIB", "100mib", "1K", "1KB", "1ki", "1b", "00", "01", "0x10",
		"1_000", "1e6", "1MiBB", "1M1", "9223372036854775808", "8388608TiB", "18446744073709551616", "１MiB", "1MiB\n",
	} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q: got %d, want none", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "7d": 7 * day, "+1d": day, "-2d": -2 * day, "1d12h": 36 * time.Hour, "-1d1h": -25 * time.Hour,
		"168h": 7 * day, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond, "106751d": 106751 * day,
	} {
		if got, ok := ParseDuration(text); !ok || got != want {
			t.Errorf("%q: got %s, %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "d", "7", "7 d", "1.5d", "12h1d", "1d2d", "1d-1h", "1d+1h", "--1d", "1d1", "2w", "7D", "106752d", "106751d24h",
		"99999999999999999999d", "９d",
	} {
		if got, ok := ParseDuration(text); ok {
			t.Errorf("%q: got %s, want none", text, got)
		}
	}
}
