package answer

import "testing"

func TestFieldOfAList(t *testing.T) {
	const object = `{"containers":[{"name":"web","image":"b"}],"ports":[{"port":80,"nodePort":1}],"finalizers":["x/y"]}`
	for _, c := range []struct {
		field, operation string
		touched          bool
	}{
		{"containers[web].image", `{"op":"replace","path":"/containers/0/image","old":"a","value":"b"}`, true},
		{"containers[web]", `{"op":"remove","path":"/containers/0","old":{"name":"side"}}`, false},
		{"containers[side]", `{"op":"remove","path":"/containers/0","old":{"name":"side"}}`, true},
		{"containers[side].image", `{"op":"remove","path":"/containers/1","old":{"name":"side"}}`, true},
		{"containers[0]", `{"op":"remove","path":"/containers/0","old":{"name":"side"}}`, true},
		{"containers[side]", `{"op":"replace","path":"/containers/0","old":{"name":"side"},"value":{"name":"web"}}`, true},
		{"containers[web]", `{"op":"replace","path":"/containers/0","old":{"name":"side"},"value":{"name":"web"}}`, true},
		{"containers[web]", `{"op":"replace","path":"","old":{},"value":` + object + `}`, true},
		{"ports[80].nodePort", `{"op":"replace","path":"/ports/0/nodePort","old":2,"value":1}`, true},
		{"ports[81].nodePort", `{"op":"replace","path":"/ports/0/nodePort","old":2,"value":1}`, false},
		{"finalizers[x/y]", `{"op":"add","path":"/finalizers/0","value":"x/y"}`, true},
		{"finalizers[z]", `{"op":"remove","path":"/finalizers/1","old":"z"}`, true},
	} {
		p, err := ParsePath(c.field)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.touched([]byte("["+c.operation+"]"), []byte(object)); got != c.touched {
			t.Errorf("%s touches %s: %v", c.operation, c.field, got)
		}
	}
}
