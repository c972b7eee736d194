package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/cluster"
	"kubejournal/test/journaltest"
)

// TestClusterNames groups journals by what their lines say of their clusters.
func TestClusterNames(t *testing.T) {
	const a, b, c = "aaaa1111-0000-4000-8000-000000000000", "bbbb2222-0000-4000-8000-000000000000", "aaaa1111-0000-4000-8000-000000000001"
	list := func(uid, name string, second int) string {
		return fmt.Sprintf(`{"seq":1,"time":"2026-11-20T12:00:%02dZ","type":"SYNCED","id":"pods/4/SYNCED","stream":"pods","cluster":%q,"version":"v1","resource":"pods","kind":"Pod","clusterUID":%q,"resourceVersion":"4"}`+"\n", second, name, uid)
	}
	line := func(name string, seq, second int) string {
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T12:00:%02dZ","type":"ADDED","origin":"watch","id":"u/9/ADDED","stream":"pods","cluster":%q,"version":"v1","resource":"pods","kind":"Pod","namespace":"x","name":"y","uid":"u","resourceVersion":"9"}`+"\n", seq, second, name)
	}
	for name, tt := range map[string]struct {
		journals []string
		want     string
	}{
		"one cluster":                     {[]string{list(a, "eu", 0), list(a, "eu", 1)}, "eu: 0 1"},
		"two":                             {[]string{list(b, "us", 0), list(a, "eu", 1), list(b, "us", 2)}, "eu: 1; us: 0 2"},
		"without names":                   {[]string{list(b, "", 0), list(a, "", 1)}, "aaaa1111: 1; bbbb2222: 0"},
		"of the same name":                {[]string{list(b, "eu", 0), list(a, "eu", 1)}, "eu-aaaa1111: 1; eu-bbbb2222: 0"},
		"whose uids begin alike":          {[]string{list(c, "eu", 0), list(a, "eu", 1), list(b, "us", 2)}, a + ": 1; " + c + ": 0; us: 2"},
		"renamed":                         {[]string{list(a, "old", 0) + line("new", 2, 5), list(a, "old", 1), list(b, "us", 2)}, "new: 0 1; us: 2"},
		"renamed, another one's last":     {[]string{list(a, "old", 0) + line("new", 2, 5), list(a, "old", 6), list(b, "us", 2)}, "old: 0 1; us: 2"},
		"no uid, and a name":              {[]string{line("us", 1, 3), list(a, "eu", 1), list(b, "us", 2)}, "eu: 1; us: 0 2"},
		"no uid, and another name":        {[]string{line("ap", 1, 3), list(a, "eu", 1), line("ap", 1, 2)}, "ap: 0 2; eu: 1"},
		"no uid and no name, one cluster": {[]string{line("", 1, 3), list(a, "eu", 1)}, "eu: 0 1"},
		"no uid, and one has a name":      {[]string{line("", 1, 3), line("ap", 1, 1)}, "ap: 0 1"},
		"no uid and no name at all":       {[]string{line("", 1, 3), line("", 1, 1)}, ": 0 1"},
		"no uid and no name, two clusters": {[]string{line("", 1, 3), list(a, "eu", 1), list(b, "us", 2)},
			"journal 0 may be of eu or us: no line has a clusterUID, and no cluster that tells them apart; " +
				"set another cluster in each config, or ask for the journals of one alone"},
		"no uid, and a name of two": {[]string{line("eu", 1, 3), list(a, "eu", 1), list(b, "eu", 2)},
			"journal 0 may be of eu-aaaa1111 or eu-bbbb2222: no line has a clusterUID, and no cluster that tells them apart; " +
				"set another cluster in each config, or ask for the journals of one alone"},
		"no line, one cluster":  {[]string{"", list(a, "eu", 1)}, "eu: 0 1"},
		"no line, two clusters": {[]string{"", list(a, "eu", 1), list(b, "us", 2)}, "eu: 1; us: 2; journal 0 has no line yet, so nothing says which cluster it is of; it is left out"},
		"no line":               {[]string{"", ""}, ": 0 1"},
		"a uid in a later line": {[]string{line("", 1, 0) + strings.Replace(list(b, "", 1), `"seq":1`, `"seq":2`, 1) + "torn", list(a, "eu", 1)}, "bbbb2222: 0; eu: 1"},
	} {
		dir := t.TempDir()
		var paths, said []string
		for n, text := range tt.journals {
			paths = append(paths, filepath.Join(dir, fmt.Sprint(n)))
			if err := os.WriteFile(paths[n], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all, err := cluster.Group(t.Context(), paths, func(text string) { said = append(said, text) })
		var got []string
		for _, c := range all {
			of := c.Name + ":"
			for _, path := range c.Paths {
				of += " " + filepath.Base(path)
			}
			got = append(got, of)
		}
		if err != nil {
			got = append(got, err.Error())
		}
		if text := strings.ReplaceAll(strings.Join(append(got, said...), "; "), dir+"/", ""); text != tt.want {
			t.Errorf("%s: %s\nwant %s", name, text, tt.want)
		}
	}
}

// TestChooseClusters chooses by names and uids.
func TestChooseClusters(t *testing.T) {
	all := []cluster.Journals{{Name: "ap"}, {Name: "eu", UID: "aaaa1111-0"}, {Name: "us", UID: "bbbb2222-0"}}
	for names, want := range map[string]string{
		"": "ap eu us", "eu": "eu", "us,ap,us": "ap us", "bbbb2222-0": "us",
		"eu,em": `no journal is of cluster "em"; they are of ap, eu, us`,
	} {
		chosen, err := cluster.Choose(all, slices.DeleteFunc(strings.Split(names, ","), func(name string) bool { return name == "" }))
		var got []string
		for _, c := range chosen {
			got = append(got, c.Name)
		}
		if err != nil {
			got = append(got, err.Error())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %s", names, text)
		}
	}
	_, err := cluster.Choose([]cluster.Journals{{}}, []string{"eu"})
	if want := `no journal is of cluster "eu": no line says which cluster it is of`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if _, err := cluster.Choose(all, []string{""}); err == nil {
		t.Error("a cluster without a name is chosen")
	}
}

// TestClusterOfArchive finds the cluster of a journal by the indexes of its rotated files and the end of its active one: no other
// line is read, so that it does not matter that they cannot be.
func TestClusterOfArchive(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	w := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
	object := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"name":"settings","uid":"c1"},"data":{"n":"%d"}}`, n)
	}
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", object(0))
	w.Rotate()
	w.Now = noon.Add(time.Minute)
	s.Synced()
	w.Rotate()
	w.Cluster = "renamed"
	s = w.Stream("configmaps", "ConfigMap")
	w.Now = noon.Add(2 * time.Minute)
	s.Put("", object(2))
	w.Confirm(false, s)
	w.Kill()
	rotated, err := filepath.Glob(w.Path[:len(w.Path)-len(".jsonl")] + "-*.gz")
	if err != nil || len(rotated) != 2 {
		t.Fatalf("%v, %v", rotated, err)
	}
	slices.Sort(rotated)
	corrupt(t, rotated[0])
	all, err := cluster.Group(t.Context(), []string{w.Path}, func(text string) { t.Error(text) })
	if err != nil || len(all) != 1 || all[0].Name != "renamed" || all[0].UID != journaltest.UID("cluster") {
		t.Errorf("%+v, %v", all, err)
	}
}

// corrupt damages a file after its head.
func corrupt(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(content) / 2; i < len(content); i++ {
		content[i] ^= 0x55
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
