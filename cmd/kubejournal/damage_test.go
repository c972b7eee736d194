package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var damages = flag.Int("damages", 5, "how many files TestDamage damages")

// damageOf damages a file's content: it flips, cuts out, doubles, zeroes or exchanges some bytes of it.
func damageOf(r *rand.Rand, b []byte) (damaged []byte, how string) {
	b = bytes.Clone(b)
	at := r.IntN(len(b))
	if r.IntN(3) == 0 {
		at = r.IntN(min(len(b), 400)) // headers, and first lines
	}
	n := min(len(b)-at, 1+r.IntN(1<<r.IntN(12)))
	switch r.IntN(6) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		return b, fmt.Sprintf("a bit flipped at %d", at)
	case 1:
		b[at] = byte(r.IntN(256))
		return b, fmt.Sprintf("another byte at %d", at)
	case 2:
		return append(b[:at], b[at+n:]...), fmt.Sprintf("%d bytes cut out at %d", n, at)
	case 3:
		return bytes.Join([][]byte{b[:at+n], b[at:]}, nil), fmt.Sprintf("%d bytes twice at %d", n, at)
	case 4:
		clear(b[at : at+n])
		return b, fmt.Sprintf("%d zeros at %d", n, at)
	}
	return b[:at], fmt.Sprintf("cut off at %d", at)
}

// TestDamage damages the files of test/sample in many ways, and asks. Nothing panics; and but for the active file, whose
// lines have no checksum, and the coverage file, of which a damage leaves less that is claimed, an answer with status 0 and
// without a word is the one of the whole journal.
func TestDamage(t *testing.T) {
	clearEnv(t)
	sample := filepath.Join(root, "test", "sample")
	entries, err := os.ReadDir(sample)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	var names []string
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "journal") {
			names = append(names, name)
			if files[name], err = os.ReadFile(filepath.Join(sample, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const at, since = "2026-11-23T10:23:20Z", "2026-11-23T10:22:10Z"
	commands := []string{
		"history * --all", "history *", "history * -o json", "history deploy -p", "history pods --deleted", "history deploy/web -n shop --field spec.replicas",
		"get * --at " + at, "get pods --at " + since, "get * -o name --at seq:700", "get deploy -o yaml --at " + at,
		"get * --deleted --since " + since + " --until " + at, "get * --deleted --clean", "get deploy --clean --at " + at,
		"diff --since " + since + " --until " + at, "diff deploy --all --since seq:388 --until seq:1180 -o json", "diff --stat --since " + since + " --until " + at,
		"blame deploy/web -n shop --at " + at + " --removed", "blame deploy/web -o json", "coverage", "coverage -o json",
		"tail -N all --no-follow", "tail pods --no-follow -o json --since " + since + " --until " + at, "index --verify", "index",
	}
	type result struct {
		status      int
		out, errors string
	}
	ask := func(dir, command string) result {
		args := append(strings.Fields(command), "--journal", filepath.Join(dir, "journal.jsonl"))
		status, out, errors := execute(t, args...)
		return result{status, strings.ReplaceAll(out, dir, ""), errors}
	}
	write := func(dir, change string, content []byte) {
		for name, b := range files {
			if name == change {
				b = content
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := make(map[string]result)
	dir := t.TempDir()
	write(dir, "", nil)
	for _, command := range commands {
		whole[command] = ask(dir, command)
	}
	seed := rand.Uint64()
	for n := range *damages {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		name := names[r.IntN(len(names))]
		damaged, how := damageOf(r, files[name])
		dir := filepath.Join(t.TempDir(), fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(dir, name, damaged)
		for range 6 {
			command := commands[r.IntN(len(commands))]
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s of %d/%d: %s, %s: panic: %v", command, seed, n, name, how, p)
					}
				}()
				got, want := ask(dir, command), whole[command]
				silent := got.status == 0 && got.errors == want.errors || got.status == want.status && got.errors == want.errors
				exempt := name == "journal.jsonl" || name == "journal.jsonl.coverage" || command == "index"
				if silent && got.out != want.out && !exempt {
					t.Errorf("%s of %d/%d: %s, %s: status %d without a word, and another answer: %s",
						command, seed, n, name, how, got.status, firstDifference(got.out, want.out))
				}
			}()
		}
		_ = os.RemoveAll(dir)
	}
}

// firstDifference is where two texts differ first.
func firstDifference(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	from := max(0, n-60)
	return fmt.Sprintf("%.160q, want %.160q", got[from:], want[from:])
}

// TestLostFile asks for the coverage where a file of the sample is gone or begins with other lines. The file is named, with
// status 3, unless it is the oldest one, which retention removes. The table does not blame the daemon for it.
func TestLostFile(t *testing.T) {
	clearEnv(t)
	sample := filepath.Join(root, "test", "sample")
	paths, err := filepath.Glob(filepath.Join(sample, "journal*"))
	if err != nil {
		t.Fatal(err)
	}
	var rotated []string // the oldest one first
	for _, path := range paths {
		if name, is := strings.CutSuffix(filepath.Base(path), ".gz"); is {
			rotated = append(rotated, strings.TrimSuffix(name, ".jsonl"))
		}
	}
	if len(rotated) < 3 {
		t.Fatalf("the sample has %q", rotated)
	}
	_, whole, _ := execute(t, "coverage", "--journal", filepath.Join(sample, "journal.jsonl"))
	for name, c := range map[string]struct {
		lost, by string // by: the file that is in its place
		status   int
		stderr   string
	}{
		"nothing": {},
		"oldest":  {lost: rotated[0]},
		"second":  {lost: rotated[1], status: 3, stderr: "begins with line 387 is missing or cannot be read"},
		"oldest again": {
			lost: rotated[1], by: rotated[0], status: 3, stderr: "begins with line 387 is missing or cannot be read",
		},
	} {
		dir := t.TempDir()
		for _, path := range paths {
			base := filepath.Base(path)
			from := path
			if c.lost != "" && strings.HasPrefix(base, c.lost) {
				if c.by == "" {
					continue
				}
				from = filepath.Join(sample, strings.Replace(base, c.lost, c.by, 1))
			}
			b, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, base), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, format := range []string{"table", "json"} {
			status, stdout, stderr := execute(t, "coverage", "-o", format, "--journal", filepath.Join(dir, "journal.jsonl"))
			if status != c.status || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("%s, %s: status %d, %q", name, format, status, stderr)
			}
			const killed, missing = "the daemon was killed", "the lines that follow are missing"
			switch {
			case format == "json":
			case strings.Count(stdout, killed) > strings.Count(whole, killed):
				t.Errorf("%s: the daemon was killed more often: %s", name, stdout)
			case strings.Contains(stdout, missing) != (c.status == 3):
				t.Errorf("%s: %s", name, stdout)
			}
		}
	}
}
