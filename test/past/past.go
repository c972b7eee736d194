// Package past asks a real API server and kubejournal serve the same, and compares the answers byte for byte.
package past

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
)

// Request is what is asked, of the API server and of its past.
type Request struct{ Path, Accept string }

// Answer is what is answered.
type Answer struct {
	Status int
	Body   string
}

// The forms of an answer, as kubectl and others ask for them.
const (
	AsGroups  = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	AsTable   = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	AsPartial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	AsList    = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// Ages finds the ages in the cells of a table.
var Ages = regexp.MustCompile(`([,\[])"(?:\d+[ydhms])+"`)

// differs is what no answer of the past can have as the API server had it. The list is that of docs/serve.md.
var differs = []*regexp.Regexp{
	// The version of a list is that of the resource's last change, not of the last change of anything.
	regexp.MustCompile(`^({"kind":"\w+List","apiVersion":"[^"]+","metadata":{"resourceVersion":)"\d+"`),
	regexp.MustCompile(`^({"kind":"Table","apiVersion":"[^"]+","metadata":{"resourceVersion":)"\d+"`),
	regexp.MustCompile(`("kind":"\w+List","metadata":{"continue":"[^"]*",(?:"remainingItemCount":\d+,)?"resourceVersion":)"\d+"`),
	regexp.MustCompile(`("kind": "\w+List",\n  (?:"apiVersion": "[^"]+",\n  )?"metadata": {\n` +
		`    (?:"continue": "",\n    )?"resourceVersion": )"\d+"`),
	// Ages are those of the moment that was asked for.
	Ages,
	// What a column is described as is that of another release.
	regexp.MustCompile(`("name":"[^"]+","type":"[^"]+","format":"[^"]*","description":)"(?:[^"\\]|\\.)*"`),
	// Servers name their own addresses.
	regexp.MustCompile(`("serverAddress":)"[^"]+"`),
}

// Same returns an answer without what differs.
func Same(a Answer) Answer {
	for _, d := range differs {
		a.Body = d.ReplaceAllString(a.Body, `$1"…"`)
	}
	return a
}

// Difference shows where two answers begin to differ.
func Difference(got, want Answer) string {
	n := 0
	for n < min(len(got.Body), len(want.Body)) && got.Body[n] == want.Body[n] {
		n++
	}
	show := func(a Answer) string {
		return fmt.Sprintf("%d …%q", a.Status, a.Body[max(n-80, 0):min(n+300, len(a.Body))])
	}
	return fmt.Sprintf("from byte %d\n%s\nwant\n%s", n, show(got), show(want))
}

// Get has a handler answer.
func Get(h http.Handler, r Request) Answer {
	a, _ := Warned(h, r)
	return a
}

// Warned has a handler answer, and returns what it warns of, too.
func Warned(h http.Handler, r Request) (Answer, []string) {
	q := httptest.NewRequest(http.MethodGet, r.Path, http.NoBody)
	q.Host = "127.0.0.1"
	if r.Accept != "" {
		q.Header.Set("Accept", r.Accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return Answer{w.Code, w.Body.String()}, w.Header().Values("Warning")
}

// Resources returns what aggregated discovery says of each resource, by GROUP/VERSION/RESOURCE, but for its verbs and
// subresources, which the past has no use for.
func Resources(a Answer) (map[string]string, error) {
	var list discoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal([]byte(a.Body), &list); err != nil {
		return nil, fmt.Errorf("%w: %s", err, a.Body)
	}
	all := map[string]string{}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				r.Verbs, r.Subresources = nil, nil
				text, err := json.Marshal(r)
				if err != nil {
					return nil, err
				}
				all[g.Name+"/"+v.Version+"/"+r.Resource] = string(text)
			}
		}
	}
	return all, nil
}
