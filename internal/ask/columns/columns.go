// Package columns prints objects of built-in resources as kube-apiserver v1.36 does in a Table, which is what kubectl
// get shows: the same columns, and cells of the same text and type.
package columns

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/json"
)

// Printer prints the objects of one resource.
type Printer struct {
	Columns []metav1.TableColumnDefinition
	// Plain says that the server has no printer of its own for the resource: it has null where there is no row.
	Plain bool
	cells func(object []byte, at clock) ([]any, error)
}

// For returns how objects of a built-in resource are printed, or nil.
func For(group, version, resource string) *Printer {
	return printers()[resource+"."+version+"."+group]
}

// Row returns the cells of an object, given as JSON of that group and version, as the server prints them at a time.
// Each is a string, an int64 or a bool.
//
// Where the object is not one of its type, as when a number is redacted, it returns an error, and cells all the same:
// of these, only name and age are known, and the others are "<unknown>". What is cut out of a list or a map goes
// unnoticed.
func (p *Printer) Row(object []byte, now time.Time) ([]any, error) {
	cells, err := p.cells(object, clock{now})
	if err != nil {
		cells = p.unknown(object, clock{now})
	}
	return cells, err
}

// unknown returns the cells of an object of which only the metadata can be read, or not even that.
func (p *Printer) unknown(object []byte, at clock) []any {
	var o struct {
		Metadata struct {
			Name              string `json:"name"`
			CreationTimestamp string `json:"creationTimestamp"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(object, &o) // what is not there is not known
	cells := make([]any, len(p.Columns))
	for i, c := range p.Columns {
		cells[i] = "<unknown>"
		created, err := time.Parse(time.RFC3339, o.Metadata.CreationTimestamp)
		switch {
		case c.Name == "Name" && o.Metadata.Name != "":
			cells[i] = o.Metadata.Name
		case c.Name == "Age" && err == nil:
			cells[i] = at.since(created)
		case c.Name == "Created At" && err == nil:
			cells[i] = created.UTC().Format(time.RFC3339)
		}
	}
	return cells
}

// printers are those of all resources of format/builtin, by resource.version.group.
var printers = sync.OnceValue(func() map[string]*Printer {
	all := make(map[string]*Printer)
	for _, some := range []map[string]*Printer{
		podPrinters(), workloadPrinters(), networkPrinters(), storagePrinters(), clusterPrinters(), accessPrinters(),
	} {
		maps.Copy(all, some)
	}
	return all
})

// of returns the printer of a type.
func of[T any](cells func(o *T, at clock) []any, columns ...metav1.TableColumnDefinition) *Printer {
	return &Printer{Columns: columns, cells: func(object []byte, at clock) ([]any, error) {
		o := new(T)
		if err := json.Unmarshal(object, o); err != nil {
			return nil, err
		}
		return cells(o, at), nil
	}}
}

// plain returns the printer of resources for which the server has none of their own.
func plain() *Printer {
	created := column("Created At", metadata["creationTimestamp"])
	created.Type = "date"
	p := of(func(o *metav1.PartialObjectMetadata, _ clock) []any {
		return []any{o.Name, o.CreationTimestamp.UTC().Format(time.RFC3339)}
	}, name, created)
	p.Plain = true
	return p
}

var (
	metadata = metav1.ObjectMeta{}.SwaggerDoc()
	name     = named("Name", metadata["name"])
	age      = column("Age", metadata["creationTimestamp"])
)

func column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

func named(name, description string) metav1.TableColumnDefinition {
	c := column(name, description)
	c.Format = "name"
	return c
}

func integer(name, description string) metav1.TableColumnDefinition {
	c := column(name, description)
	c.Type = "integer"
	return c
}

func boolean(name, description string) metav1.TableColumnDefinition {
	c := column(name, description)
	c.Type = "boolean"
	return c
}

// wide returns a column that kubectl shows with -o wide only.
func wide(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Priority = 1
	return c
}

// clock is the time at which a row is printed.
type clock struct{ now time.Time }

// since returns how long ago a time was.
func (c clock) since(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(c.now.Sub(t))
}

func (c clock) age(o metav1.ObjectMeta) string { return c.since(o.CreationTimestamp.Time) }

// or returns a text, or another if it is empty.
func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// first joins the first texts of a list, and says how many more there are.
func first(limit int, separator string, list []string) string {
	if len(list) <= limit {
		return strings.Join(list, separator)
	}
	return andMore(strings.Join(list[:limit], separator), len(list)-limit)
}

func andMore(text string, n int) string { return fmt.Sprintf("%s + %d more...", text, n) }
