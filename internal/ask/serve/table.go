package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/columns"
	"kubejournal/internal/format/rawjson"
)

// describes has what a Kubernetes API server says of an object's metadata.
var describes = metav1.ObjectMeta{}.SwaggerDoc()

// printer shows objects of a kind in a table.
type printer struct {
	columns []metav1.TableColumnDefinition
	row     func(object []byte, now time.Time) ([]any, error)
	plain   bool // it is that of any kind: the server has null where there is no row
}

// printerOf returns how objects of a kind are shown in a table, as a Kubernetes API server shows them.
func printerOf(k *kind) *printer {
	if !k.Custom {
		return builtinPrinter(k)
	}
	return customPrinter(k.columns)
}

// builtinPrinter returns how objects are shown that need no CustomResourceDefinition.
func builtinPrinter(k *kind) *printer {
	known := columns.For(k.Group, k.Version, k.Resource.Resource)
	if known == nil {
		return customPrinter([]column{{
			Name: "Age", Type: "date", Description: describes["creationTimestamp"],
			JSONPath: ".metadata.creationTimestamp",
		}})
	}
	row := func(object []byte, now time.Time) ([]any, error) {
		cells, _ := known.Row(object, now) // what a redacted value hides is <unknown> in them
		return cells, nil
	}
	return &printer{columns: known.Columns, row: row, plain: known.Plain}
}

// maxCell bounds what is shown of a value, in bytes: who may write a CustomResourceDefinition says which that is.
const maxCell = 16 << 10

// customPrinter shows objects as a CustomResourceDefinition says. It does what apiextensions-apiserver does in
// pkg/registry/customresource/tableconvertor.
func customPrinter(of []column) *printer {
	p := &printer{columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: describes["name"]},
	}}
	var paths []*jsonpath.JSONPath
	for _, c := range of[:min(len(of), answer.MaxColumns)] {
		path := jsonpath.New(c.Name).AllowMissingKeys(true)
		if _, ok := answer.NewColumn(c.Name, c.JSONPath); !ok || path.Parse("{"+c.JSONPath+"}") != nil {
			path = nil
		}
		paths = append(paths, path)
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		p.columns = append(p.columns, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	p.row = func(object []byte, now time.Time) ([]any, error) {
		var content map[string]any
		if err := utiljson.Unmarshal(object, &content); err != nil {
			return nil, fmt.Errorf("read object: %w", err)
		}
		cells := []any{string(rawjson.Unquote(nil, rawjson.Inside(rawjson.At(object, []byte("/metadata/name")))))}
		for i, path := range paths {
			cells = append(cells, cell(path, p.columns[i+1].Type, content, now))
		}
		return cells, nil
	}
	return p
}

// cell returns what a column shows of an object.
func cell(path *jsonpath.JSONPath, typ string, object map[string]any, now time.Time) any {
	if path == nil {
		return nil
	}
	results, err := path.FindResults(object)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	value := results[0][0].Interface()
	if typ == "string" {
		var text bytes.Buffer
		if path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return string(bytes.ToValidUTF8(text.Bytes()[:min(text.Len(), maxCell)], nil))
	}
	switch value := value.(type) {
	case int64:
		switch typ {
		case "integer":
			return value
		case "number":
			return float64(value)
		}
	case float64:
		switch typ {
		case "integer":
			return int64(value)
		case "number":
			return value
		}
	case bool:
		if typ == "boolean" {
			return value
		}
	case string:
		if typ == "date" {
			return age(value, now)
		}
	}
	return nil
}

// age returns how long before a time another one was, as kubectl shows it.
func age(text string, now time.Time) string {
	var t metav1.Time
	switch err := t.UnmarshalQueryParameter(text); {
	case err != nil:
		return "<invalid>"
	case t.IsZero():
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// completed are the conditions of the rows of Pods that have ended, by their phase.
var completed = map[string]string{
	"Succeeded": `,"conditions":[{"type":"Completed","status":"True","reason":"Succeeded",` +
		`"message":"The pod has completed successfully."}]`,
	"Failed": `,"conditions":[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]`,
}

// appendRow appends a row of a table, with as much of the object as is asked for.
func (p *printer) appendRow(dst []byte, k *kind, o object, include metav1.IncludeObjectPolicy, f form,
	now time.Time) ([]byte, error) {
	whole := k.appendWhole(nil, o)
	cells, err := p.row(whole, now)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(cells)
	if err != nil {
		return nil, err
	}
	dst = append(append(dst, `{"cells":`...), text...)
	if k.Group == "" && k.Resource.Resource == "pods" {
		dst = append(dst, completed[string(rawjson.Inside(rawjson.At(whole, []byte("/status/phase"))))]...)
	}
	dst = append(dst, `,"object":`...)
	switch include {
	case metav1.IncludeNone:
		dst = append(dst, "null"...)
	case metav1.IncludeObject:
		dst = append(dst, whole...)
	default:
		dst = k.appendPartial(dst, o, f.apiVersion())
	}
	return append(dst, '}'), nil
}

// appendHead appends what a table begins with, up to its rows.
func (p *printer) appendHead(dst []byte, f form, metadata []byte, headers bool) ([]byte, error) {
	var columns []metav1.TableColumnDefinition // null without headers, as the server has it
	if headers {
		columns = p.columns
	}
	text, err := json.Marshal(columns)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(dst, `{"kind":"Table","apiVersion":%s,"metadata":%s,"columnDefinitions":%s,"rows":[`,
		quoted(f.apiVersion()), metadata, text), nil
}
