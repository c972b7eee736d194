package watcher_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"kubejournal/internal/kube/fake"
)

// Parts of answers that are said by hand.
const (
	intruderItem = `{"metadata":{"name":"w0","namespace":"default","uid":"i0","resourceVersion":"2"},"spec":{"serial":-1}}`
	emptyTable   = `{"kind":"Table","metadata":{"resourceVersion":"2"},"rows":[],"items":null}`
)

// wireHabits are about how answers are spelt: what is well-formed JSON, and no list or event of the API.
func wireHabits() []habitRow {
	list := func(name string, body func([]byte) []byte) habitRow {
		return habitRow{name: "list " + name, form: "paged", habit: fake.Habit{Body: body, IgnoreLimit: true}}
	}
	otherKind := list("of another kind, empty",
		listOf(`{"kind":"IntruderList","metadata":{"resourceVersion":"%s"},"items":[]}`))
	otherKind.undetectable, otherKind.waived = anyListKind, []string{trueLines, uniqueIDs}
	all := []habitRow{
		otherKind,
		list("of another kind, its items without a kind",
			listOf(`{"kind":"IntruderList","metadata":{"resourceVersion":"%s"},"items":[`+intruderItem+`]}`)),
		list("of another kind, said last",
			listOf(`{"items":[`+intruderItem+`],"metadata":{"resourceVersion":"%s"},"kind":"IntruderList"}`)),
		list("is a table", spelt(`"items"`, `"rows"`)),
		list("is an empty table with items", func([]byte) []byte { return []byte(emptyTable) }),
		list("is a Status", spelt("WidgetList", "Status")),
		list("has null among its items", spelt(`"items":[{`, `"items":[null,{`)),
		list("has an item without metadata", spelt(`"items":[{`, `"items":[{},{`)),
		list("is sent twice", func(b []byte) []byte { return slices.Concat(b, b) }),
		{name: "pages without tokens", form: "paged", habit: fake.Habit{Body: spelt(`"continue":"`, `"next":"`)}},
	}
	event := func(name string, frame func([]byte) []byte) habitRow {
		return habitRow{name: "event " + name, habit: fake.Habit{Frame: frame}}
	}
	exactly := func(r habitRow) habitRow { r.must = exact; return r }
	object := func(name string, change func(typ string, object map[string]any)) habitRow {
		return habitRow{name: name, habit: fake.Habit{Object: change}}
	}
	deleted := func(name string, change func(object, meta map[string]any)) habitRow {
		return object("DELETED "+name, func(typ string, o map[string]any) {
			if typ == "DELETED" {
				change(o, metaOf(o))
			}
		})
	}
	either := []habitRow{
		event("with a type before and behind", followedBy(`,"type":"DELETED"}`)),
		event("with an object before and behind", followedBy(`,"object":{}}`)),
		exactly(event("with other members", followedBy(`,"x":{"type":"DELETED"}}`))),
		exactly(event("without newlines", bytes.TrimSpace)),
		exactly(event("with its object first", func(b []byte) []byte {
			head, object, _ := bytes.Cut(bytes.TrimSuffix(b, []byte("}\n")), []byte(`,"object":`))
			return slices.Concat([]byte(`{"object":`), object, []byte(","), head[1:], []byte("}\n"))
		})),
		event("of a type in lower case", spelt(`"DELETED"`, `"deleted"`)),
		event("of no type", spelt(`"type":"MODIFIED"`, `"type":""`)),
		event("of an unknown type", spelt(`"type":"MODIFIED"`, `"type":"CHANGED"`)),
		event("of an array", func(b []byte) []byte { return fmt.Appendf(nil, "[%s]\n", bytes.TrimSpace(b)) }),
		event("with Metadata", spelt(`"metadata"`, `"Metadata"`)),
		exactly(object("kind left out", func(_ string, o map[string]any) { delete(o, "kind") })),
		object("kind in lower case", func(_ string, o map[string]any) { o["kind"] = "widget" }),
		exactly(event("of another version", spelt(`"example.com/v1"`, `"example.com/v2"`))),
		deleted("with names alone", func(o, m map[string]any) {
			o["metadata"] = map[string]any{"name": m["name"], "namespace": m["namespace"]}
		}),
		deleted("without metadata", func(o, _ map[string]any) { delete(o, "metadata") }),
		deleted("without a uid", func(_, m map[string]any) { delete(m, "uid") }),
		deleted("with the uid of another", func(_, m map[string]any) { m["uid"] = "another" }),
		{
			name: "DELETED without labels", scope: "label",
			habit: deleted("", func(_, m map[string]any) { delete(m, "labels") }).habit,
		},
		{name: "watch is answered with a list", habit: fake.Habit{ListForWatch: true}},
		{name: "watch ends at once", habit: fake.Habit{EndsAtOnce: true}},
		{name: "watch begins with the event at its position", habit: fake.Habit{Start: fake.StartWithLast}},
	}
	for _, e := range []struct{ name, status string }{
		{"without a code", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired"}`},
		{"of a code alone", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":410}`},
		{"of a code in quotes", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":"410"}`},
		{"of success", `{"kind":"Status","apiVersion":"v1","status":"Success","code":200}`},
		{"of no kind", `{"status":"Failure","reason":"Expired","code":410}`},
		{"of an object", intruderItem},
		{"of null", "null"},
		{"of what is not found", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`},
	} {
		frame := `{"type":"ERROR","object":` + e.status + "}\n"
		either = append(either, event("is an ERROR "+e.name, func([]byte) []byte { return []byte(frame) }))
	}
	for _, p := range []string{"0", "00", " ", "+"} {
		r := object("version that begins with "+fmt.Sprintf("%q", p), func(_ string, o map[string]any) {
			m := metaOf(o)
			m["resourceVersion"] = p + strings.TrimLeft(m["resourceVersion"].(string), p)
		})
		r.lies = true
		either = append(either, r)
	}
	for n, name := range []string{"lists", "events"} {
		r := object("no uid in "+name, func(typ string, o map[string]any) {
			if (typ == "") == (n == 0) {
				delete(metaOf(o), "uid")
			}
		})
		r.lies = true
		either = append(either, r)
	}
	return append(all, eitherForm(either)...)
}

func spelt(old, by string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(by)) }
}

// followedBy adds members after the object of an event.
func followedBy(members string) func([]byte) []byte {
	return func(b []byte) []byte { return slices.Concat(bytes.TrimSuffix(b, []byte("}\n")), []byte(members+"\n")) }
}

// listOf puts another list in the place of one, at its version.
func listOf(format string) func([]byte) []byte {
	return func(b []byte) []byte {
		const field = `"resourceVersion":"`
		version, _, _ := bytes.Cut(b[bytes.LastIndex(b, []byte(field))+len(field):], []byte(`"`))
		return fmt.Appendf(nil, format, version)
	}
}
