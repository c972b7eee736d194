package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Policies of an audit log, without the stages before there is an answer.
const (
	// AuditRequests has every request's metadata.
	AuditRequests = auditPolicy + "rules: [{level: Metadata}]\n"
	// AuditWrites has the writes alone, and the objects in what the server answered. What it answers about Secrets
	// stays out.
	AuditWrites = auditPolicy + `omitManagedFields: true
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata, resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}
- {level: RequestResponse}
`
	auditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
)

var errNoAuditLog = errors.New("the cluster has no audit log, see Options.Audit")

// Request is what the audit log says of one request.
type Request struct {
	By
	ID         string
	Controller string // of kube-controller-manager: the name that it adds to the user agent
	Name       string // of the object; a watch of one by its field selector has it too
	Code       int    // of the answer; 0 where the log has none yet
	RequestURI string
	Received   time.Time
	Answered   time.Time // or, of a watch that continues, begun to be
	// Of AuditWrites: the object that was the answer, and its uid and version. A Status has neither.
	Object       json.RawMessage
	UID, Version string
}

// By is what requests are counted by. An empty field is what the request has not, as a list of all namespaces.
type By struct {
	Agent     string // the user agent's product, the part before the slash
	User      string
	Verb      string
	Resource  string // with its group, as in deployments.apps
	Namespace string
}

// Query is the request's query.
func (r *Request) Query() (url.Values, error) {
	u, err := url.Parse(r.RequestURI)
	if err != nil {
		return nil, fmt.Errorf("read request of the audit log: %w", err)
	}
	return u.Query(), nil
}

// Requests reads the audit log: each request once, in the order in which they were answered. A watch stands there from
// the moment it was answered; of a request that was just answered the log may not have a line yet.
func (c *Cluster) Requests() ([]Request, error) {
	if c.options.Audit == "" {
		return nil, errNoAuditLog
	}
	content, err := os.ReadFile(c.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return ParseAudit(content[:bytes.LastIndexByte(content, '\n')+1]) // the last line may not be whole yet
}

// ParseAudit is Requests of the content of an audit log.
func ParseAudit(content []byte) ([]Request, error) {
	var all []Request
	place := make(map[string]int) // by id: a watch is logged at its start and at its end
	for line := range bytes.Lines(content) {
		var e struct {
			AuditID, Verb, UserAgent, RequestURI string
			User                                 struct{ Username string }
			ObjectRef                            struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus                       struct{ Code int }
			RequestReceivedTimestamp             time.Time
			StageTimestamp                       time.Time
			ResponseObject                       json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read audit log: %w: %.200q", err, line)
		}
		product, _, _ := bytes.Cut([]byte(e.UserAgent), []byte("/"))
		resource := e.ObjectRef.Resource
		if e.ObjectRef.APIGroup != "" {
			resource += "." + e.ObjectRef.APIGroup
		}
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		controller := ""
		if parts := strings.Split(e.UserAgent[strings.LastIndexByte(e.UserAgent, ' ')+1:], "/"); len(parts) == 3 {
			controller = parts[2] // kubernetes/COMMIT/NAME
		}
		r := Request{
			By: By{Agent: string(product), User: e.User.Username, Verb: e.Verb, Resource: resource,
				Namespace: e.ObjectRef.Namespace},
			ID: e.AuditID, Controller: controller,
			Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code, RequestURI: e.RequestURI,
			Received: e.RequestReceivedTimestamp, Answered: e.StageTimestamp, Object: e.ResponseObject,
		}
		var answer struct {
			Metadata struct{ UID, ResourceVersion string }
		}
		if err := json.Unmarshal(r.Object, &answer); r.Object != nil && err != nil {
			return nil, fmt.Errorf("read audit log: answer: %w", err)
		}
		r.UID, r.Version = answer.Metadata.UID, answer.Metadata.ResourceVersion
		if i, known := place[r.ID]; known {
			all[i] = r
			continue
		}
		place[r.ID] = len(all)
		all = append(all, r)
	}
	return all, nil
}

// Count counts requests.
func Count(requests []Request) map[By]int {
	count := make(map[By]int)
	for i := range requests {
		count[requests[i].By]++
	}
	return count
}
