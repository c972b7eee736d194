package eventtest

// Made returns JSON made out of any bytes: an object, most often well-formed, full of the keys that matter, with
// repeated and escaped ones among them. A fuzzer thus reaches what random text does not.
func Made(from []byte) []byte {
	m := maker{from: from}
	return m.object()
}

type maker struct {
	from   []byte
	out    []byte
	indent bool
}

func (m *maker) pick(n int) int {
	if len(m.from) == 0 {
		return 0
	}
	c := m.from[0]
	m.from = m.from[1:]
	return int(c) % n
}

func (m *maker) put(s string) {
	m.out = append(m.out, s...)
	if m.indent {
		m.out = append(m.out, []string{"", " ", "\n", "\t \r\n"}[m.pick(4)]...)
	}
}

func (m *maker) object() []byte {
	m.indent = m.pick(4) == 1
	m.put(`{`)
	for m.pick(8) != 1 && len(m.from) > 0 {
		m.key()
		m.value(0)
		m.put(`,`)
	}
	m.put(`"metadata":`)
	if m.pick(6) == 1 {
		m.value(0)
	} else {
		m.members(0)
	}
	if m.pick(2) == 1 {
		m.put(`,`)
		m.key()
		m.value(0)
	}
	m.put(`}`)
	for range m.pick(64) / 61 { // now and then a fault
		at := m.pick(256) % len(m.out)
		switch m.pick(3) {
		case 0:
			m.out = append(m.out[:at:at], m.out[at+1:]...)
		case 1:
			m.out[at] = "{}[]:,\"\\ \n\x00\xff0a"[m.pick(14)]
		case 2:
			m.out = m.out[:at]
		}
	}
	return m.out
}

func (m *maker) key() {
	keys := []string{
		"metadata", "data", "d\\u0061ta", "stringData", "spec", "status", "containers", "env", "value", "password", "a",
		"b", "c", "\\u0061", "annotations", "labels", "managedFields", "manager", "subresource", "time", "name",
		"namespace", "uid", "resourceVersion", "generation", "kubectl.kubernetes.io/last-applied-configuration",
		"kubectl.kubernetes.io\\/last-applied-configur\\u0061tion", "k8s.io/initial-events-end", "count", "message",
		"reason", "type", "series", "source", "component", "involvedObject", "regarding", "kind", "n\xffo",
	}
	m.put(`"` + keys[m.pick(len(keys))] + `"`)
	m.put(`:`)
}

func (m *maker) members(depth int) {
	m.put(`{`)
	for i := 0; m.pick(5) != 1 && len(m.from) > 0; i++ {
		if i > 0 {
			m.put(`,`)
		}
		m.key()
		m.value(depth + 1)
	}
	m.put(`}`)
}

func (m *maker) value(depth int) {
	texts := []string{
		"x", "", `\"}{[\\`, "secret", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-02T00:00:00+02:00",
		"2026-01-01T00:00:00.5Z", "true", `\ud83d\ude00`, `\ud83d`, "é", "\xff", "\xed\xa0\x80", `\n\u001f`, "a b",
	}
	switch c := m.pick(12); {
	case c < 4 && depth < 6:
		m.members(depth)
	case c < 7 && depth < 6:
		m.put(`[`)
		for i := 0; m.pick(4) != 1 && len(m.from) > 0; i++ {
			if i > 0 {
				m.put(`,`)
			}
			m.value(depth + 1)
		}
		m.put(`]`)
	case c < 10:
		m.put(`"` + texts[m.pick(len(texts))] + `"`)
	default:
		m.put([]string{"null", "true", "false", "0", "-1.50", "1e400", "12", "9223372036854775808"}[m.pick(8)])
	}
}
