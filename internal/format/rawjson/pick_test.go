package rawjson

import "testing"

func TestAt(t *testing.T) {
	const object = `{"a":{"b/c":[{"d":1},"x"],"0":2,"~":3},"e":[]}`
	for pointer, want := range map[string]string{
		"": object, "/a/b~1c/0/d": "1", "/a/b~1c/1": `"x"`, "/a/0": "2", "/a/~0": "3", "/e": "[]",
		"/e/0": "", "/a/b~1c/2": "", "/a/b~1c/-": "", "/a/b~1c/x": "", "/a/b~1c/99999999999999999999": "", "/x/y": "", "/a/0/x": "", "a": object,
	} {
		if got := string(At([]byte(object), []byte(pointer))); got != want {
			t.Errorf("%s: %s", pointer, got)
		}
	}
	if At(nil, []byte("/a")) != nil {
		t.Error("nothing has members")
	}
}

func TestPick(t *testing.T) {
	v := Pick([]byte(`{"c":3,"a":1,"x":{"b":5},"b":"2"}`), "a", "b", "d")
	if string(v[0]) != "1" || string(v[1]) != `"2"` || v[2] != nil {
		t.Errorf("%s", v)
	}
}
