package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kube/fake"
)

// apiServer is the API server of one script, and what it refuses.
type apiServer struct {
	*fake.Server
	denied  []fake.Attributes
	answers map[schema.GroupResource]*fake.Fault // of lists
}

func withServer(env *testscript.Env) error {
	env.Values[apiServer{}.key()] = new(apiServer)
	return nil
}

func (apiServer) key() string { return "API server" }

func fakeOf(ts *testscript.TestScript) *apiServer { return ts.Value(apiServer{}.key()).(*apiServer) }

// startServer is the script command "server": it starts an API server, which is then found as kubectl finds it.
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: server")
	}
	f := fakeOf(ts)
	f.Server = fake.New(fake.Options{})
	ts.Defer(f.Close)
	path, err := f.Kubeconfig(ts.Getenv("WORK"))
	ts.Check(err)
	ts.Setenv("KUBECONFIG", path)
}

// deny is the script command "deny VERB RESOURCE [NAMESPACE]": the server refuses that from now on.
func deny(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: deny VERB RESOURCE [NAMESPACE]")
	}
	f := fakeOf(ts)
	gr := schema.ParseGroupResource(args[1])
	refused := fake.Attributes{Verb: args[0], Group: gr.Group, Resource: gr.Resource}
	if len(args) > 2 {
		refused.Namespace = args[2]
	}
	f.denied = append(slices.Clone(f.denied), refused)
	denied := f.denied
	f.SetPolicy(func(a fake.Attributes) (bool, string) {
		a.Name = ""
		refused := slices.ContainsFunc(denied, func(d fake.Attributes) bool {
			if d.Namespace == "" {
				d.Namespace = a.Namespace
			}
			return d == a
		})
		if refused {
			return false, "no rule\nfor it"
		}
		return true, ""
	})
}

// serve is the script command "serve PLURAL.GROUP KIND [VERB,...]": the server has this custom resource from now on.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: serve PLURAL.GROUP KIND [VERB,...]")
	}
	gr := schema.ParseGroupResource(args[0])
	r := fake.Resource{Group: gr.Group, Version: "v1", ExtraVersions: []string{"v1beta1"}, Resource: gr.Resource, Kind: args[1], Namespaced: true}
	if len(args) > 2 {
		r.Verbs = strings.Split(args[2], ",")
	}
	fakeOf(ts).AddResource(r)
}

// stale is the script command "stale GROUP/VERSION": the server cannot tell what is in it.
func stale(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stale GROUP/VERSION")
	}
	gv, err := schema.ParseGroupVersion(args[0])
	ts.Check(err)
	fakeOf(ts).SetStale(gv, true)
}

// makeNamespace is the script command "namespace NAME": the server has this namespace from now on.
func makeNamespace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: namespace NAME")
	}
	_, err := fakeOf(ts).Create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": args[0]},
	})
	ts.Check(err)
}

// answerLists is the script command "answer RESOURCE STATUS [BODY]": so the server answers lists of that from now on.
func answerLists(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: answer RESOURCE STATUS [BODY]")
	}
	f := fakeOf(ts)
	gr := schema.ParseGroupResource(args[0])
	code, err := strconv.Atoi(args[1])
	ts.Check(err)
	fault := &fake.Fault{Status: code}
	if len(args) > 2 {
		fault.Body = args[2]
	}
	f.answers = maps.Clone(f.answers)
	if f.answers == nil {
		f.answers = make(map[schema.GroupResource]*fake.Fault)
	}
	f.answers[gr] = fault
	answers := f.answers
	f.SetFault(func(r fake.Request) *fake.Fault {
		if r.Verb != "list" {
			return nil
		}
		return answers[schema.GroupResource{Group: r.Group, Resource: r.Resource}]
	})
}
