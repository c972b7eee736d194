package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/command"
	"kubejournal/internal/ask/search"
)

// where is a part of all inputs.
type where struct {
	Namespace string `json:"namespace,omitempty" jsonschema:"objects of this namespace alone; several with commas; default: all"`
	Cluster   string `json:"cluster,omitempty" jsonschema:"of several journals those of this cluster alone; several with commas; default: all"`
}

// request returns what is asked of. Each of objects is a RESOURCE or RESOURCE/NAME: without a name they are several
// resources, where two arguments of a command are a resource and a name.
func (w *where) request(objects ...string) command.Request {
	if all := strings.Join(objects, ","); len(objects) > 1 && !strings.Contains(all, "/") {
		objects = []string{all}
	}
	return command.Request{Objects: objects, Namespaces: list(w.Namespace), Clusters: list(w.Cluster), Output: "json"}
}

// list returns what a flag that takes several with commas is set to.
func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

// parseTimes reads times in place of their names and texts.
func parseTimes(all ...moment) error {
	for _, t := range all {
		if t.text == "" {
			continue
		}
		m, err := command.ParseTime(t.name, t.text)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		*t.is = m
	}
	return nil
}

type moment struct {
	name, text string
	is         *argument.Moment
}

type historyInput struct {
	Objects []string `json:"objects,omitempty" jsonschema:"each as for kubectl: RESOURCE or RESOURCE/NAME, such as pods, deploy/web or deployments.apps/web; default: all"`
	where
	Since      string `json:"since,omitempty" jsonschema:"versions since that time (UTC): 90m or 2d (ago), today, 14:02, 'yesterday 14:02', 2026-11-20T14:02:00Z, seq:1234 (a row's seq), rv:1234 (a resourceVersion); default: the first"`
	Until      string `json:"until,omitempty" jsonschema:"versions up to that time, in the same forms; default: the last"`
	By         string `json:"by,omitempty" jsonschema:"versions that this field manager or user wrote; * stands for anything: kubectl*"`
	Field      string `json:"field,omitempty" jsonschema:"versions that changed the field at this path: spec.replicas, spec.template.spec.containers[web].image"`
	Grep       string `json:"grep,omitempty" jsonschema:"where objects have this text in a value or a key: a row for each field, at the first version that has it"`
	GrepRegexp string `json:"grep-regexp,omitempty" jsonschema:"the same for a regular expression (RE2)"`
	Deleted    bool   `json:"deleted,omitempty" jsonschema:"deletions alone"`
	Warnings   bool   `json:"warnings,omitempty" jsonschema:"Events of type Warning alone, about the objects or all in the namespace"`
	Related    bool   `json:"related,omitempty" jsonschema:"also the owners of the objects, what they own, and Events about them"`
	All        bool   `json:"all,omitempty" jsonschema:"also what is left out as noise: heartbeats, status counts, what controllers do with their own objects"`
	WithObject bool   `json:"with-object,omitempty" jsonschema:"each row with its whole object, which takes much room; without it, get with at seq:N has the object of one row"`
	Limit      int    `json:"limit,omitempty" jsonschema:"most rows"`
}

type getInput struct {
	Objects []string `json:"objects" jsonschema:"each as for kubectl: RESOURCE or RESOURCE/NAME, such as pods, deploy/web; * is every resource"`
	where
	At       string `json:"at,omitempty" jsonschema:"objects as they were at that time (UTC): 90m or 2d (ago), 14:02, 'yesterday 14:02', 2026-11-20T14:02:00Z, seq:1234 (a line), rv:1234 (a resourceVersion); default: now"`
	Deleted  bool   `json:"deleted,omitempty" jsonschema:"what was deleted between since and until, as it was last"`
	Since    string `json:"since,omitempty" jsonschema:"with deleted: since that time"`
	Until    string `json:"until,omitempty" jsonschema:"with deleted: up to that time"`
	Selector string `json:"selector,omitempty" jsonschema:"objects whose labels match, as for kubectl: app=web,tier!=cache"`
	Fields   string `json:"field-selector,omitempty" jsonschema:"objects whose fields match: spec.nodeName=node-a"`
	Clean    bool   `json:"clean,omitempty" jsonschema:"as kubectl apply takes them, to give back what is gone; nothing is applied"`
	Limit    int    `json:"limit,omitempty" jsonschema:"most rows"`
}

type diffInput struct {
	Objects []string `json:"objects,omitempty" jsonschema:"each as for kubectl: RESOURCE or RESOURCE/NAME, such as pods, deploy/web; default: all"`
	where
	Since string `json:"since" jsonschema:"from that time (UTC): 90m or 2d (ago), today, 14:02, 'yesterday 14:02', 2026-11-20T14:02:00Z, seq:1234 (a line), rv:1234 (a resourceVersion)"`
	Until string `json:"until,omitempty" jsonschema:"up to that time, in the same forms; default: the last that is known"`
	All   bool   `json:"all,omitempty" jsonschema:"also what is left out as noise, such as counts in a status"`
	Limit int    `json:"limit,omitempty" jsonschema:"most rows"`
}

type blameInput struct {
	Object string `json:"object" jsonschema:"one object, as for kubectl: deploy/web"`
	where
	At      string `json:"at,omitempty" jsonschema:"the object as it was at that time (UTC): 90m (ago), 14:02, 2026-11-20T14:02:00Z, seq:1234, rv:1234; default: the last that is known, also of an object that is gone"`
	Spec    bool   `json:"spec,omitempty" jsonschema:"without its status"`
	Removed bool   `json:"removed,omitempty" jsonschema:"also fields that are gone"`
}

type whyInput struct {
	Object string `json:"object" jsonschema:"one object, as for kubectl: pod/web-0"`
	where
	At string `json:"at,omitempty" jsonschema:"as of that time (UTC): 90m (ago), 14:02, 2026-11-20T14:02:00Z, seq:1234, rv:1234; default: the last that is known"`
}

type coverageInput struct {
	Objects []string `json:"objects,omitempty" jsonschema:"resources as for kubectl, such as pods or deployments.apps; default: all"`
	where
	Limit int `json:"limit,omitempty" jsonschema:"most rows"`
}

// addTools adds a tool for each question.
func (s *server) addTools(on *mcp.Server) {
	add(s, on, mcp.Tool{
		Name: "history", Title: "What happened",
		Description: "What happened to objects, version by version and oldest first: created, changed (with the changed fields, where the journal has them) and deleted, when, and by which field manager or user. A row is a line of the journal, or with grep a field that has the text.",
	}, historyOf)
	add(s, on, mcp.Tool{
		Name: "get", Title: "Objects as they were",
		Description: "Objects as they were at a time, or as they were before they were deleted. A row is an object, as kubectl get -o json has it.",
	}, getOf)
	add(s, on, mcp.Tool{
		Name: "diff", Title: "What changed between two times",
		Description: "What differs between two times, in a namespace or of some objects: a row for each object that was added, deleted or changed, or changed and changed back, with its changed fields; and a last row SUMMARY. What happened in between is in history.",
	}, diffOf)
	add(s, on, mcp.Tool{
		Name: "blame", Title: "Who set each field",
		Description: "For each field of one object its value, and when and by which field manager it was written. A row is a document for each cluster.",
	}, func(in blameInput) (*asked, error) {
		q := &command.Blame{Blame: answer.Blame{Spec: in.Spec, Removed: in.Removed}}
		a := &asked{q, in.request(in.Object), rows{limit: maxRows, less: "spec"}}
		return a, parseTimes(moment{"at", in.At, &q.At})
	})
	add(s, on, mcp.Tool{
		Name: "why", Title: "Why it is gone, does not run, or changed",
		Description: "Why one object is gone, does not run, or has changed: a chain of causes, from what is asked about back to what began it, each with the seq of its line and whether it is certain, and who did it where that is known. Where a cause cannot be told, none is named, and ends says what would be needed. A row is a document for each cluster.",
	}, func(in whyInput) (*asked, error) {
		q := &command.Why{}
		a := &asked{q, in.request(in.Object), rows{limit: maxRows, less: "at"}}
		return a, parseTimes(moment{"at", in.At, &q.At})
	})
	add(s, on, mcp.Tool{
		Name: "coverage", Title: "What was watched, and when",
		Description: "From when to when each stream was watched, and why that ended. Outside of these intervals changes may be missing. A row is a stream.",
	}, func(in coverageInput) (*asked, error) {
		return &asked{command.Coverage{}, in.request(in.Objects...), rows{limit: in.Limit, less: "objects"}}, nil
	})
}

func historyOf(in historyInput) (a *asked, err error) {
	q := &command.History{History: answer.History{
		By: in.By, Deleted: in.Deleted, Warnings: in.Warnings, Related: in.Related, All: in.All,
	}}
	a = &asked{q, in.request(in.Objects...), rows{
		limit: in.Limit, lines: true, byLine: in.Grep+in.GrepRegexp == "", less: "since, until, objects",
	}}
	if !in.WithObject {
		a.without = "object"
	}
	if in.Field != "" {
		if q.Field, err = answer.ParsePath(in.Field); err != nil {
			return nil, fmt.Errorf("field: %w", err)
		}
	}
	switch {
	case in.Grep != "" && in.GrepRegexp != "":
		return nil, fmt.Errorf("grep-regexp: one text or regular expression at a time")
	case in.Grep != "":
		q.Pattern, err = search.Text(in.Grep)
	case in.GrepRegexp != "":
		q.Pattern, err = search.Regexp(in.GrepRegexp)
	}
	if err != nil {
		return nil, fmt.Errorf("grep: %w", err)
	}
	return a, parseTimes(moment{"since", in.Since, &q.Since}, moment{"until", in.Until, &q.Until})
}

func getOf(in getInput) (*asked, error) {
	q := &command.Get{Deleted: in.Deleted, Clean: in.Clean, Labels: in.Selector, Fields: in.Fields}
	a := &asked{q, in.request(in.Objects...), rows{limit: in.Limit, lines: true, less: "objects, a selector"}}
	a.Output = answer.Lines
	return a, parseTimes(
		moment{"at", in.At, &q.At}, moment{"since", in.Since, &q.Since}, moment{"until", in.Until, &q.Until})
}

func diffOf(in diffInput) (*asked, error) {
	q := &command.Diff{Diff: answer.Diff{All: in.All}}
	a := &asked{q, in.request(in.Objects...), rows{limit: in.Limit, lines: true, less: "since, until, objects"}}
	return a, parseTimes(moment{"since", in.Since, &q.Since}, moment{"until", in.Until, &q.Until})
}
