package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// measure names a figure of a benchmark.
type measure struct{ bench, unit string }

// results are all values of each figure, in the order of the runs.
type results map[measure][]float64

// procs is what go test puts after a benchmark's name.
var procs = regexp.MustCompile(`-\d+$`)

// read adds the benchmark lines of in; it passes over all others.
func (r results) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.ParseUint(fields[1], 10, 64); err != nil {
			continue // words that begin as a result does
		}
		if len(fields)%2 != 0 {
			return fmt.Errorf("read results: line %d: a value or a unit is missing: %s", number, lines.Text())
		}
		name := procs.ReplaceAllString(fields[0], "")
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("read results: line %d: %q is no figure", number, fields[i])
			}
			m := measure{name, fields[i+1]}
			r[m] = append(r[m], v)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	return nil
}

// value is a figure over all runs.
type value struct {
	median float64
	spread float64 // half the distance between the least and the most, by the median
	runs   int     // 0: not measured
}

func valueOf(runs []float64) value {
	if len(runs) == 0 {
		return value{}
	}
	sorted := slices.Sorted(slices.Values(runs))
	n := len(sorted)
	v := value{median: (sorted[(n-1)/2] + sorted[n/2]) / 2, runs: n}
	if v.median > 0 {
		v.spread = (sorted[n-1] - sorted[0]) / 2 / v.median
	}
	return v
}

// ratio is a divided by b: run by run where both have as many, since what slowed a run slowed both; else that of the
// medians.
func ratio(a, b []float64) value {
	if len(a) == 0 || len(b) == 0 {
		return value{}
	}
	if len(a) != len(b) {
		a, b = []float64{valueOf(a).median}, []float64{valueOf(b).median}
	}
	runs := make([]float64, len(a))
	for i := range a {
		if b[i] == 0 {
			return value{}
		}
		runs[i] = a[i] / b[i]
	}
	return valueOf(runs)
}

// number writes three digits that count, or all of a whole number.
func number(f float64) string {
	decimals := 0
	switch a := math.Abs(f); {
	case a < 0.01:
		decimals = 4
	case a < 1:
		decimals = 3
	case a < 10:
		decimals = 2
	case a < 100:
		decimals = 1
	}
	text := strconv.FormatFloat(f, 'f', decimals, 64)
	if decimals > 0 {
		return strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return group(text)
}

// group sets commas between thousands.
func group(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
