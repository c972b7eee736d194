package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each contradiction has one warning, with the fields, their values and what to write; limits that fit have none.
func TestCheckLimits(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		output string
		at     Disk
		want   []string
	}{
		"defaults":      {"{path: a.jsonl}", Disk{Volume: 5 << 30, Files: 10, Size: 100 << 20, Reach: time.Hour}, nil},
		"not known":     {"{path: a.jsonl, maxTotalSize: 20GB, maxFiles: 0, maxAge: 30d}", Disk{}, nil},
		"fits":          {"{path: a.jsonl, maxTotalSize: 20GB, maxFiles: 0}", Disk{Volume: 25e9}, nil},
		"stdout":        {"{maxSize: 0, maxTotalSize: 1}", Disk{}, nil},
		"bound by age":  {"{path: a.jsonl, maxFiles: 0, maxAge: 1d}", Disk{Volume: 1e9}, nil},
		"compressed":    {"{path: a.jsonl, maxFiles: 500}", Disk{Volume: 20e9}, nil},
		"never rotated": {"{path: a.jsonl, maxSize: 0, maxTotalSize: 20GB}", Disk{Volume: 1e9}, []string{"test.yaml:2: output.maxSize: warning: 0 never rotates the file, and only rotated files are removed: nothing bounds the journal; write e.g. 100MiB, or have another program rotate it"}},
		"no limit": {"{path: a.jsonl, maxFiles: 0, maxAge: 0}", Disk{Volume: 5 << 30}, []string{
			"test.yaml:2: output.maxTotalSize: warning: is 0, as are maxFiles and maxAge: nothing is ever removed, until the volume is full; write maxTotalSize, at most four fifths of the volume, which has 5GiB",
		}},
		"no limit, no volume": {"{path: a.jsonl, maxFiles: 0, maxAge: 0}", Disk{}, []string{
			"test.yaml:2: output.maxTotalSize: warning: is 0, as are maxFiles and maxAge: nothing is ever removed, until the volume is full; write maxTotalSize, at most four fifths of the volume",
		}},
		"below two files": {"{path: a.jsonl, maxTotalSize: 150MiB}", Disk{Volume: 5 << 30}, []string{
			"test.yaml:2: output.maxTotalSize: warning: 150MiB is less than two files of maxSize (100MiB), and the active one is never removed: hardly a rotated file would be kept; write at least 200MiB, or a lower maxSize",
		}},
		"volume": {"{path: a.jsonl, maxTotalSize: 20GB, maxFiles: 0}", Disk{Volume: 20e9}, []string{
			"test.yaml:2: output.maxTotalSize: warning: 20GB and one file of maxSize (100MiB), for one that is being compressed, are more than the volume has (20GB); write at most 14GiB, or enlarge the volume",
		}},
		"few files": {"{path: a.jsonl, maxTotalSize: 20GB}", Disk{}, []string{
			"test.yaml:2: output.maxFiles: warning: 10 files of maxSize (100MiB) have at most 1100MiB, which is far from maxTotalSize (20GB); write 0, so that maxTotalSize alone decides, or at least 191",
		}},
		"uncompressed": {"{path: a.jsonl, maxFiles: 500, compress: false}", Disk{Volume: 20e9}, []string{
			"test.yaml:2: output.maxFiles: warning: 500 files of maxSize (100MiB) and the active one may have 48GiB, as nothing is compressed; the volume has 20GB; write maxTotalSize, at most four fifths of the volume",
		}},
		"any number": {"{path: a.jsonl, maxFiles: 9223372036854775807, maxTotalSize: 1GB}", Disk{}, nil},
		"age by number": {"{path: a.jsonl, maxFiles: 10, maxAge: 30d}", Disk{Files: 10, Size: 1e8, Reach: 3 * time.Hour}, []string{
			"test.yaml:2: output.maxAge: warning: 30d is not reached: the oldest file is of 3h0m0s ago, and maxFiles (10) removes it; raise that, or lower maxAge",
		}},
		"age by size": {"{path: a.jsonl, maxFiles: 0, maxAge: 30d, maxTotalSize: 1GiB}", Disk{Files: 9, Size: 900 << 20, Reach: 5 * day}, []string{
			"test.yaml:2: output.maxAge: warning: 30d is not reached: the oldest file is of 5d ago, and maxTotalSize (1GiB) removes it; raise that, or lower maxAge",
		}},
		"young longer than old": {"{path: a.jsonl, minAge: 2d, maxAge: 1d}", Disk{}, []string{
			"test.yaml:2: output.minAge: warning: 2d is more than maxAge (1d), which removes all that is older; write at most that",
		}},
		"young by default": {"{path: a.jsonl, maxAge: 1h}", Disk{}, nil},
		"young":            {"{path: a.jsonl, maxFiles: 10, maxAge: 30d}", Disk{Files: 9, Size: 1e8, Reach: 3 * time.Hour}, nil},
		"nearly there":     {"{path: a.jsonl, maxFiles: 10, maxAge: 30d}", Disk{Files: 10, Size: 1e8, Reach: 16 * day}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, "resources: [pods]\noutput: "+tc.output, Overrides{}, noEnv)
			var got []string
			for _, w := range c.CheckLimits(tc.at) {
				w.File = "test.yaml" // mustLoad's is of a folder of its own
				got = append(got, w.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
