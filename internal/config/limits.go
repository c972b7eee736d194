package config

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Disk is what is known of where the journal is; what is 0 is not known.
type Disk struct {
	Volume uint64        // bytes of the file system
	Files  int           // rotated files that there are
	Size   int64         // bytes of them
	Reach  time.Duration // how long ago the oldest of them was rotated
}

// CheckLimits returns which limits of the output contradict each other or the disk that it is on: one warning each,
// with what to write instead. The daemon runs with any limits.
func (c *Config) CheckLimits(at Disk) (warnings Faults) {
	out := c.Output
	warn := func(key, format string, args ...any) {
		warnings = append(warnings, c.Fault("", "output."+key, "warning: "+fmt.Sprintf(format, args...)))
	}
	if out.Path == Stdout {
		return nil
	}
	if out.MaxSize == 0 {
		warn("maxSize", "0 never rotates the file, and only rotated files are removed: nothing bounds the journal; "+
			"write e.g. 100MiB, or have another program rotate it")
		return warnings
	}
	// Not as integers: maxFiles can be any.
	all := float64(out.MaxSize) * (float64(out.MaxFiles) + 1)
	size, volume := float64(out.MaxSize), float64(at.Volume)
	total := float64(out.MaxTotalSize)
	switch {
	case total == 0 && out.MaxFiles == 0 && out.MaxAge == 0:
		warn("maxTotalSize", "is 0, as are maxFiles and maxAge: nothing is ever removed, until the volume is full; "+
			"write maxTotalSize, at most four fifths of the volume%s", ofVolume(at.Volume))
	case total > 0 && total < 2*size:
		warn("maxTotalSize", "%s is less than two files of maxSize (%s), and the active one is never removed: "+
			"hardly a rotated file would be kept; write at least %s, or a lower maxSize",
			inBytes(total), inBytes(size), inBytes(2*size))
	case total > 0 && volume > 0 && total+size > volume:
		warn("maxTotalSize", "%s and one file of maxSize (%s), for one that is being compressed, are more than the volume has (%s); "+
			"write at most %s, or enlarge the volume",
			inBytes(total), inBytes(size), inBytes(volume), inBytes(max(0, volume*4/5-size)))
	case total == 0 && !out.Compress && out.MaxFiles > 0 && volume > 0 && all > volume:
		warn("maxFiles", "%d files of maxSize (%s) and the active one may have %s, as nothing is compressed; the volume has %s; "+
			"write maxTotalSize, at most four fifths of the volume", out.MaxFiles, inBytes(size), inBytes(all), inBytes(volume))
	}
	if out.MaxFiles > 0 && all < total/2 {
		warn("maxFiles", "%d files of maxSize (%s) have at most %s, which is far from maxTotalSize (%s); "+
			"write 0, so that maxTotalSize alone decides, or at least %.0f",
			out.MaxFiles, inBytes(size), inBytes(all), inBytes(total), total/size)
	}
	if _, written := c.src.lines["output.minAge"]; written && out.MaxAge > 0 && out.MinAge > out.MaxAge {
		warn(
			"minAge", "%s is more than maxAge (%s), which removes all that is older; write at most that",
			inDays(out.MinAge), inDays(out.MaxAge),
		)
	}
	// Only where it was written: who sets a size alone does not ask for the default age.
	if _, written := c.src.lines["output.maxAge"]; !written || at.Files == 0 || at.Reach >= out.MaxAge/2 {
		return warnings
	}
	const unreached = "%s is not reached: the oldest file is of %s ago, and %s (%s) removes it; raise that, or lower maxAge"
	switch age, reach := inDays(out.MaxAge), inDays(at.Reach); {
	case out.MaxFiles > 0 && at.Files >= out.MaxFiles:
		warn("maxAge", unreached, age, reach, "maxFiles", fmt.Sprint(out.MaxFiles))
	case total > 0 && float64(at.Size)+2*size > total:
		warn("maxAge", unreached, age, reach, "maxTotalSize", inBytes(total))
	}
	return warnings
}

func ofVolume(bytes uint64) string {
	if bytes == 0 {
		return ""
	}
	return ", which has " + inBytes(float64(bytes))
}

// units are what a size is written in, the largest first of those that are powers of one number.
var units = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10},
	{"kB", 1e3},
}

// inBytes writes a size as a config takes it: in whole numbers. It rounds down one of many digits.
func inBytes(n float64) string {
	for _, unit := range units {
		if whole := math.Floor(n / unit.bytes); whole >= 1 && whole < 1e4 && whole*unit.bytes == n {
			return fmt.Sprintf("%.0f%s", whole, unit.name)
		}
	}
	for _, unit := range units {
		if whole := math.Floor(n / unit.bytes); whole >= 10 && strings.Contains(unit.name, "i") {
			return fmt.Sprintf("%.0f%s", whole, unit.name)
		}
	}
	return fmt.Sprintf("%.0fB", n)
}

// inDays writes a duration as a config takes it, rounded down to days where it is some of them.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 || d >= 4*day {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.Truncate(time.Second).String()
}
