package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// format decodes one document of a reader's output. It may tell of no change, and of a gap.
type format func(json.RawMessage) (changes []change, gap bool, err error)

// parse reads all of a reader's output. A document begins at a line that begins with a brace: what a kill has torn
// costs itself and what was written after it on its line, as it would cost any reader of lines.
func parse(data []byte, decode format) output {
	var o output
	for chunk := range chunks(data) {
		decoder := json.NewDecoder(bytes.NewReader(chunk))
		for {
			var document json.RawMessage
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			var (
				changes []change
				gap     bool
			)
			if err == nil {
				changes, gap, err = decode(document)
			}
			if err != nil {
				o.broken++
				break
			}
			o.changes = append(o.changes, changes...)
			o.gap = o.gap || gap
		}
	}
	return o
}

func chunks(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			end := len(data)
			if next := bytes.Index(data, []byte("\n{")); next >= 0 {
				end = next + 1
			}
			if !yield(data[:end]) {
				return
			}
			data = data[end:]
		}
	}
}

type object struct {
	Metadata struct{ Namespace, Name, UID, ResourceVersion string }
}

func (o object) change(kind string) ([]change, bool, error) {
	m := o.Metadata
	switch {
	case kind == "ERROR": // the server's word that it has dropped the history, passed on
		return nil, true, nil
	case kind == "BOOKMARK":
		return nil, false, nil
	case kind != added && kind != modified && kind != deleted:
		return nil, false, fmt.Errorf("unknown type %q", kind)
	case m.UID == "" || m.Name == "" || m.ResourceVersion == "":
		return nil, false, errors.New("no uid, name or resourceVersion")
	}
	return []change{{kind, m.Namespace + "/" + m.Name, m.UID, m.ResourceVersion}}, false, nil
}

// journalLine is kubejournal's own.
func journalLine(document json.RawMessage) ([]change, bool, error) {
	var line struct{ Type, Namespace, Name, UID, ResourceVersion string }
	if err := json.Unmarshal(document, &line); err != nil {
		return nil, false, err
	}
	switch line.Type {
	case "GAP":
		return nil, true, nil
	case "SYNCED":
		return nil, false, nil
	}
	var o object
	o.Metadata.Namespace, o.Metadata.Name, o.Metadata.UID, o.Metadata.ResourceVersion = line.Namespace, line.Name,
		line.UID, line.ResourceVersion
	return o.change(line.Type)
}

// watchEvent is what the server sends, and what most programs write. Of more objects than it asks for at once, kubectl
// writes one event for each list that it was given.
func watchEvent(document json.RawMessage) ([]change, bool, error) {
	var event struct {
		Type   string
		Object struct {
			object
			Items []object
		}
	}
	if err := json.Unmarshal(document, &event); err != nil {
		return nil, false, err
	}
	if event.Object.Items == nil {
		return event.Object.change(event.Type)
	}
	var all []change
	for _, o := range event.Object.Items {
		changes, _, err := o.change(event.Type)
		if err != nil {
			return nil, false, err
		}
		all = append(all, changes...)
	}
	return all, false, nil
}

// otlp is OpenTelemetry's JSON of logs whose bodies are watch events.
func otlp(document json.RawMessage) ([]change, bool, error) {
	var logs struct {
		ResourceLogs []struct {
			ScopeLogs []struct {
				LogRecords []struct{ Body otlpValue }
			}
		}
	}
	if err := json.Unmarshal(document, &logs); err != nil {
		return nil, false, err
	}
	var (
		all  []change
		gaps bool
	)
	for _, r := range logs.ResourceLogs {
		for _, s := range r.ScopeLogs {
			for _, l := range s.LogRecords {
				meta := l.Body.get("object").get("metadata")
				var o object
				o.Metadata.Namespace, o.Metadata.Name = meta.get("namespace").StringValue, meta.get("name").StringValue
				o.Metadata.UID, o.Metadata.ResourceVersion = meta.get("uid").StringValue,
					meta.get("resourceVersion").StringValue
				changes, gap, err := o.change(l.Body.get("type").StringValue)
				if err != nil {
					return nil, false, err
				}
				all, gaps = append(all, changes...), gaps || gap
			}
		}
	}
	if len(all) == 0 && !gaps {
		return nil, false, errors.New("no log records")
	}
	return all, gaps, nil
}

type otlpValue struct {
	StringValue string
	KvlistValue struct {
		Values []struct {
			Key   string
			Value otlpValue
		}
	}
}

func (v otlpValue) get(key string) otlpValue {
	for _, p := range v.KvlistValue.Values {
		if p.Key == key {
			return p.Value
		}
	}
	return otlpValue{}
}
