package changes

import "testing"

func TestKey(t *testing.T) {
	for element, want := range map[string]string{
		`{"image":"nginx","name":"web"}`:             `"web"`,
		`{"type":"Ready","status":"True"}`:           `"Ready"`,
		`{"protocol":"TCP","containerPort":80}`:      `80`,
		`{"name":{"x":1},"key":"a"}`:                 `"a"`,
		`{"port":80,"name":"http","type":"x"}`:       `"http"`,
		`{"addresses":["10.0.0.1"],"conditions":{}}`: ``,
		`"name"`: ``, `["name"]`: ``, ``: ``,
	} {
		if got := string(Key([]byte(element))); got != want {
			t.Errorf("%s: %s", element, got)
		}
	}
}
