// Package restore turns objects of a journal into objects that kubectl apply and kubectl diff take: without what the
// server sets, without objects that controllers make again, and never with a value that the journal does not have.
package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Object is an object for kubectl apply.
type Object struct {
	JSON            []byte // without white space between tokens, and YAML too
	Kind            string // with its group, if it has one: Deployment.apps
	Namespace, Name string
	// ServerSide says that kubectl apply takes it with --server-side alone: else kubectl leaves a copy of it in an
	// annotation, and all annotations together may have 256 KiB.
	ServerSide bool
}

// Outcome says what Clean has made of an object.
type Outcome int

// The outcomes of Clean.
const (
	Cleaned Outcome = iota
	LeftOut         // a controller makes it again, or it is no configuration
	Refused         // the journal does not have all of it
)

// Verdict is an outcome and its reason.
type Verdict struct {
	Outcome Outcome
	Reason  string   // follows the object's name and a colon: "owned by ReplicaSet web-7d4b9"; empty if it is Cleaned
	Fields  []string // those that are redacted, as the config writes paths; nil unless that is why it is Refused
}

const redacted = "REDACTED"

// members are those of one JSON object. Numbers are as they are written.
type members = map[string]any

// Clean returns the object of a line as kubectl apply takes it. The object has only Kind, Namespace and Name unless it
// is Cleaned.
func Clean(l *line.Fields) (Object, Verdict) {
	o := Object{Kind: text(l, line.FieldKind), Namespace: text(l, line.FieldNamespace), Name: text(l, line.FieldName)}
	apiVersion := text(l, line.FieldVersion)
	kind := o.Kind
	if group := text(l, line.FieldGroup); group != "" {
		o.Kind += "." + group
		apiVersion = group + "/" + apiVersion
	}

	metadata, _ := decode(rawjson.At(l.Object, []byte("/metadata"))) // most objects are pods, and need no more
	if reason := madeAgain(o, metadata); reason != "" {
		return o, Verdict{Outcome: LeftOut, Reason: reason}
	}
	all, err := decode(l.Object)
	if reason := missing(l, all, err); reason != "" {
		return o, Verdict{Outcome: Refused, Reason: reason}
	}
	if o.Kind == "ServiceAccount" {
		removeAccountSecrets(o, all)
	}
	if reason := unwanted(o, all); reason != "" {
		return o, Verdict{Outcome: LeftOut, Reason: reason}
	}

	removeServerFields(o, all)
	if fields := redactedFields(nil, nil, all); fields != nil {
		return o, Verdict{Outcome: Refused, Reason: "redacted: " + strings.Join(fields, ", "), Fields: fields}
	}
	all["apiVersion"], all["kind"] = apiVersion, kind // a list of objects has them once, for all of its items
	o.JSON, err = encode(all)
	if err != nil {
		return o, Verdict{Outcome: Refused, Reason: err.Error()}
	}
	o.ServerSide = needsServerSide(o, all)
	return o, Verdict{}
}

// maxAnnotations is how many bytes all annotations of an object may have, names and values.
const maxAnnotations = 256 << 10

// needsServerSide reports whether the annotation that kubectl apply adds is too large: it has the object as Go
// encodes JSON, with an empty annotations member if there is none, and a newline.
func needsServerSide(o Object, all members) bool {
	annotations := child(child(all, "metadata"), "annotations")
	const most = 6 // bytes for one that is escaped
	if (len(o.JSON)+len(`"annotations":{},`))*most < maxAnnotations/2 {
		return false // and so are its own annotations, which are a part of it
	}
	size := len(lastApplied) + len(asJSON(all)) + len("\n")
	if annotations == nil {
		size += len(`"annotations":{},`)
	}
	for key, value := range annotations {
		text, _ := value.(string)
		size += len(key) + len(text)
	}
	return size > maxAnnotations
}

// missing says what of the object a line does not have. An object with nothing but metadata, not even a kind, is that
// of payload: metadata; a server that does not stream lists shows a ServiceAccount like that too, and it cannot be told
// apart.
func missing(l *line.Fields, all members, err error) string {
	reason := text(l, line.FieldTruncatedReason)
	_, hasKind := all["kind"]
	switch {
	case reason != "":
		return "truncated: " + reason
	case l.Incomplete():
		if cut := l.Cut(); len(cut) > 0 {
			return "truncated, cut: " + strings.Join(cut, ", ")
		}
		return "truncated"
	case len(l.Object) == 0:
		return "the line has no object"
	case err != nil:
		return err.Error()
	case len(all) == 1 && !hasKind,
		string(l.Value(line.FieldFinalStateKnown)) == "false" && child(all, "metadata")["creationTimestamp"] == nil:
		return "the line has only the object's metadata"
	}
	return ""
}

// redactedFields appends the paths of redacted values.
func redactedFields(dst []string, path []byte, value any) []string {
	switch value := value.(type) {
	case string:
		if value == redacted {
			dst = append(dst, string(path))
		}
	case members:
		for _, key := range sortedKeys(value) {
			dst = redactedFields(dst, fieldpath.AppendKey(path, key), value[key])
		}
	case []any:
		for i, element := range value {
			dst = redactedFields(dst, fieldpath.AppendElement(path, strconv.Itoa(i)), element)
		}
	}
	return dst
}

func decode(object []byte) (all members, err error) {
	if len(object) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if err = decoder.Decode(&all); err == nil {
		if _, next := decoder.Token(); next != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the object is not valid JSON: %w", err)
	}
	return all, nil
}

// encode returns an object as JSON that is YAML too, since many tools read everything as that.
func encode(all members) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(all); err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	return escapeForYAML(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// escapeForYAML escapes the characters that JSON allows in strings and that a YAML reader refuses, or takes for the end
// of a line.
func escapeForYAML(object []byte) []byte {
	bad := func(r rune) bool {
		return r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
	}
	if bytes.IndexFunc(object, bad) < 0 {
		return object
	}
	out := make([]byte, 0, len(object)+16)
	for len(object) > 0 {
		r, n := utf8.DecodeRune(object)
		if bad(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, object[:n]...)
		}
		object = object[n:]
	}
	return out
}

// text returns a member of the line that is a string, "" where it is none.
func text(l *line.Fields, f line.Field) string {
	return string(rawjson.Unquote(nil, l.Text(f)))
}
