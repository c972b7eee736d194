package argument

import (
	"fmt"
	"strings"
	"testing"
)

func TestObjects(t *testing.T) {
	for args, want := range map[string]string{
		"":                       "",
		"pods":                   "pods/",
		"Pod":                    "pod/",
		"po":                     "pods/",
		"deploy/web":             "deployments/web",
		"deploy/web po/web-0":    "deployments/web pods/web-0",
		"deploy web":             "deployments/web",
		"deploy web api":         "deployments/web deployments/api",
		"pods,deploy":            "pods/ deployments/",
		"pods,deploy web":        "pods/web deployments/web",
		"deployments.apps/web":   "deployments.apps/web",
		"deploy.v1.apps":         "deployments.v1.apps/",
		"pods.":                  "pods./",
		"pods.v1.":               "pods.v1./",
		"* web":                  "*/web",
		"*.apps":                 "*.apps/",
		"widgets.example.com/a":  "widgets.example.com/a",
		"cm kube-root-ca.crt":    "configmaps/kube-root-ca.crt",
		"crds,vac":               "customresourcedefinitions/ volumeattributesclasses/",
		"clusterroles system:x":  "clusterroles/system:x",
		"certificates.v1.x.io a": "certificates.v1.x.io/a",
		"node/node-3 pods":       "node/node-3 pods/",
		"pods deploy/web":        "pods/ deployments/web",
		"deploy/web cm,po svc/a": "deployments/web configmaps/ pods/ services/a",
		"z":                      "z/",
	} {
		objects, err := Objects(strings.Fields(args))
		var got []string
		for _, o := range objects {
			got = append(got, fmt.Sprintf("%s/%s", o, o.Name))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", args, got, err)
		}
	}
	for args, want := range map[string]string{
		"pods/":               `"pods/" is not the name of an object; write e.g. deploy/web, each as an argument of its own, and its namespace with -n`,
		"a/b/c":               `"a/b/c" is not the name of an object`,
		"/web":                `"/web" is not the name of a resource; write it as kubectl takes it, e.g. pods, deployments.apps or deploy/web`,
		"pods,":               `"" is not the name of a resource`,
		".apps":               `".apps" is not the name of a resource`,
		"pods deploy/web ago": `"ago" is a part of a time; write a time with spaces in quotes: 'yesterday 14:02'`,
		"14:02":               `"14:02" is a part of a time`,
		"pods 14:02:30":       `"14:02:30" is a part of a time`,
		"deploy/web a_b":      `"a_b" is not the name of a resource`,
		"pods a%b":            `"a%b" is not the name of an object, which has no / and no %`,
		"pods/a,pods/b":       `"pods/a,pods/b" is not the name of an object; write e.g. deploy/web, each as an argument of its own`,
		"pods,deploy/web a/b": `"pods,deploy/web" is not the name of a resource`,
	} {
		if _, err := Objects(strings.Fields(args)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestMayCome(t *testing.T) {
	for text, want := range map[string]bool{
		"pods": true, "pod": true, "po": true, "pods.": true, "deployments.apps": true, "deployments.v1.apps": true, "*": true,
		"events.events.k8s.io": true, "widgets.example.com": true, "*.example.com": true,
		"podz": false, "widgets": false, "deployments.batch": false, "deploymnets.apps": false, "leasess.coordination.k8s.io": false,
	} {
		o, err := ParseObject(text)
		if err != nil || o.MayCome() != want {
			t.Errorf("%s: %t, %v", text, !want, err)
		}
	}
}

func TestShort(t *testing.T) {
	for resource, want := range map[string]string{"deployments": "deploy", "deployment": "deploy", "leases": "", "widgets": ""} {
		if got := Short([]byte(resource)); got != want {
			t.Errorf("%s: %q", resource, got)
		}
	}
	if !IsBuiltin([]byte("services")) || IsBuiltin([]byte("svc")) || IsBuiltin([]byte("widgets")) {
		t.Error("services alone is one of Kubernetes' own")
	}
}

// TestObjectNames has names that the API allows: anything but /, %, . and ..
func TestObjectNames(t *testing.T) {
	for _, name := range []string{
		"ldap:CN=A B,OU=x", "a,b", "pods,deploy", " ", "a ", "-n", "...", ".a", `say "hi"`, `back\slash`, "a&b<c>",
		"tab\there", "größe", "*", "a?b#c",
	} {
		for _, args := range [][]string{{"identities.user.openshift.io/" + name}, {"identities.user.openshift.io", name}} {
			all, err := Objects(args)
			if err != nil || len(all) != 1 || all[0].Name != name || all[0].String() != "identities.user.openshift.io" {
				t.Errorf("%q: %+v, %v", args, all, err)
			}
		}
	}
	all, err := Objects([]string{"pods,deploy", "a,b", "c d"})
	if err != nil || len(all) != 4 || all[0].Name != "a,b" || all[3].Name != "c d" || all[3].Word() != "deployments" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, name := range []string{"", ".", "..", "50%", "a,pods/b"} {
		for _, args := range [][]string{{"pods/" + name}, {"pods", name}} {
			if all, err := Objects(args); err == nil {
				t.Errorf("%q: %+v", args, all)
			}
		}
	}
}

func TestObjectList(t *testing.T) {
	for list, want := range map[string]string{
		"pods":                              "pods/",
		"pods,deploy":                       "pods/ deployments/",
		"pods/a,pods/b":                     "pods/a pods/b",
		"pods/a,deploy":                     "pods/a deployments/",
		"identities/ldap:CN=A B,OU=x":       "identities/ldap:CN=A B,OU=x",
		"identities/CN=A,OU=x,pods/a,nodes": "identities/CN=A,OU=x pods/a nodes/",
		",pods,,deploy,":                    "pods/ deployments/",
	} {
		objects, err := ObjectList(list)
		var got []string
		for _, o := range objects {
			got = append(got, fmt.Sprintf("%s/%s", o, o.Name))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", list, got, err)
		}
	}
	for _, list := range []string{"OU=x", "pods,OU=x", "pods/a/b", "pods/,deploy"} {
		if all, err := ObjectList(list); err == nil {
			t.Errorf("%s: %+v", list, all)
		}
	}
}
