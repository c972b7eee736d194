package fieldpath

import (
	"slices"
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	for want, path := range map[string][]byte{
		"spec.replicas":                 AppendKey(AppendKey(nil, "spec"), "replicas"),
		`data["log.level"]`:             AppendKey([]byte("data"), "log.level"),
		`["a/b"][""]["\""]`:             AppendKey(AppendKey(AppendKey(nil, "a/b"), ""), `"`),
		`["a b"]["*"]["\n"]["\u202e"]`:  AppendKey(AppendKey(AppendKey(AppendKey(nil, "a b"), "*"), "\n"), "\u202e"),
		`["{}"]["\xff"]["$(A)"].é.a\`:   AppendKey(AppendKey(AppendKey(AppendKey(AppendKey(nil, "{}"), "\xff"), "$(A)"), "é"), `a\`),
		"finalizers[example.com/a b]":   AppendElement([]byte("finalizers"), "example.com/a b"),
		`l[0][a[0][""]["*"]["]"]["\""]`: AppendElement(AppendElement(AppendElement(AppendElement(AppendElement(AppendElement([]byte("l"), "0"), "a[0"), ""), "*"), "]"), `"`),
	} {
		if string(path) != want {
			t.Errorf("got %s\nwant %s", path, want)
		}
	}
}

func TestParseAny(t *testing.T) {
	for path, want := range map[string][]Step{
		"":                            nil,
		".":                           nil,
		".spec.replicas":              {{Key: "spec"}, {Key: "replicas"}},
		"containers[web].image":       {{Key: "containers"}, {Key: "web"}, {Key: "image"}},
		".spec.containers.[0].image":  {{Key: "spec"}, {Key: "containers"}, {Key: "0"}, {Key: "image"}},
		"data.*":                      {{Key: "data"}, {Each: true}},
		`*[*]["*"]`:                   {{Each: true}, {Each: true}, {Key: "*"}},
		"a b.$(c)":                    {{Key: "a b"}, {Key: "$(c)"}},
		"/spec/containers/0/*/a~1b~0": {{Key: "spec"}, {Key: "containers"}, {Key: "0"}, {Each: true}, {Key: "a/b~"}},
		"/":                           {{}},
	} {
		if got, err := ParseAny(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
	for _, path := range []string{"[", "a[", "a[]", "..a", "a..b", "a.", "a.[", "a[web]b", `a["b]`, `a["b"`, `a["\q"]`} {
		if got, err := ParseAny(path); err == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// What is written is read as what it was made of.
func FuzzFieldPath(f *testing.F) {
	f.Add("spec|containers|all|image", uint(0b0100))
	f.Add(`a.b/c||"|~1|~0|~|*|]|[|a]b| |`+"\xff|\u202e|\x00|\ufffd", uint(0b1010101))
	f.Fuzz(func(t *testing.T, text string, elements uint) {
		var steps []Step
		var config, answer, pointer []byte
		keys := strings.Split(text, "|")
		for i, key := range keys {
			steps = append(steps, Step{Key: key})
			config = AppendKey(config, key)
			if elements>>i&1 == 0 {
				answer = AppendKey(answer, key)
			} else {
				answer = AppendElement(answer, key)
			}
			pointer = append(append(pointer, '/'), Escaped([]byte(key))...)
			if key == "all" {
				steps = append(steps, Step{Each: true})
				config, answer = append(config, "[*]"...), append(answer, "[*]"...)
			}
		}
		if got, err := Parse(string(config)); err != nil || !slices.Equal(got, steps) {
			t.Errorf("%q is read as %+v, %v", config, got, err)
		}
		for _, path := range [][]byte{config, answer} {
			if got, err := ParseAny(string(path)); err != nil || !slices.Equal(got, steps) {
				t.Errorf("%q is read as %+v, %v", path, got, err)
			}
			if strings.ContainsAny(string(path), "\x00\n\x1b\u202e") {
				t.Errorf("%q is not printable", path)
			}
		}
		if got := PointerSteps(string(pointer)); !slices.Equal(got, keys) {
			t.Errorf("%q is read as %q", pointer, got)
		}
	})
}
