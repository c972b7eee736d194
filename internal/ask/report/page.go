package report

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"time"

	"kubejournal/internal/host/look"
	"kubejournal/internal/host/terminal"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	ownCSS string
	//go:embed page.js
	pageJS string

	pageCSS = look.CSS + ownCSS

	// policy lets the page be what is in it, and ask for nothing. data: is for the icon.
	policy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; img-src data:; "+
		"base-uri 'none'", look.Digest(pageCSS), look.Digest(pageJS))

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"css":   func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // our own file
		"js":    func() template.JS { return template.JS(pageJS) },    //nolint:gosec // our own file
		"utc":   func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05") },
		"count": terminal.Count,
	}).Parse(pageHTML))
)

// Page is a page that can be written.
type Page struct {
	*page
	Shown, Seen int // versions on it, and that there are
}

// maxPlain is how many rows there are for a browser without scripts.
const maxPlain = 200

// Plain yields the rows of a page without scripts: those that are no noise.
func (p *Page) Plain() (rows []Plain) {
	for i := range p.Versions {
		v := &p.Versions[i]
		if v.Noise || len(rows) == maxPlain {
			continue
		}
		r := Plain{version: v}
		if v.Object >= 0 {
			r.object = &p.Objects[v.Object]
		}
		rows = append(rows, r)
	}
	return rows
}

// Plain is a row.
type Plain struct {
	*version
	*object
}

// Of returns which object it is about.
func (r Plain) Of() string {
	switch {
	case r.object == nil:
		return ""
	case r.Namespace != "":
		return r.Resource + " " + r.Namespace + "/" + r.Name
	}
	return r.Resource + " " + r.Name
}

// Policy returns the page's Content-Security-Policy. One that a server answers with may ask that server again.
func (p *Page) Policy() string {
	if p.Form != nil {
		return policy + "; form-action 'self'; connect-src 'self'"
	}
	return policy + "; form-action 'none'"
}

// Count returns how many objects the page has, but for Events.
func (p *Page) Count() (n int) {
	for i := range p.Objects {
		if p.Objects[i].Lane == i && p.Objects[i].Resource != "" {
			n++
		}
	}
	return n
}

// Data returns the page's content as page.js reads it, a string in JSON.
func (p *Page) Data() (template.JS, error) {
	var packed bytes.Buffer
	base := base64.NewEncoder(base64.StdEncoding, &packed)
	to, _ := gzip.NewWriterLevel(base, gzip.BestCompression) // a level that there is
	text, err := marshal(struct {
		*page
		Versions []version `json:"versions"`
	}{p.page, p.Versions})
	if err != nil {
		return "", err
	}
	for _, step := range []func() error{
		func() error { _, err := to.Write(text); return err }, to.Close, base.Close,
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return template.JS(`"` + packed.String() + `"`), nil //nolint:gosec // base64
}

// Write writes the page.
func (p *Page) Write(to io.Writer) error { return pageTemplate.Execute(to, p) }

func marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // what it is in is packed
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
