package line

import "testing"

// A name is read as it was written, and one that nobody here has written keeps its text and claims nothing.
func TestStreamName(t *testing.T) {
	for text, want := range map[string]StreamName{
		"pods":                                  {Resource: "pods"},
		"deployments.apps?namespace=web":        {Resource: "deployments.apps", Namespace: "web"},
		"pods?labelSelector=app%3Dweb%26x":      {Resource: "pods", LabelSelector: "app=web&x"},
		"pods?fieldSelector=a%3Db&shard=0-of-4": {Resource: "pods", FieldSelector: "a=b", Shard: "0-of-4"},
		"pods?namespace=a&labelSelector=b&fieldSelector=c&shard=1-of-2": {
			Resource: "pods", Namespace: "a", LabelSelector: "b", FieldSelector: "c", Shard: "1-of-2",
		},
		"":                               {},
		"pods?":                          {Resource: "pods?"},
		"pods?x=1":                       {Resource: "pods", rest: "x=1"},
		"pods?namespace=%zz":             {Resource: "pods", rest: "namespace=%zz"},
		"pods?namespace=a&namespace=b":   {Resource: "pods", rest: "namespace=a&namespace=b"},
		"pods?shard=0-of-2&namespace=a":  {Resource: "pods", rest: "shard=0-of-2&namespace=a"},
		"pods?labelSelector=a=b":         {Resource: "pods", rest: "labelSelector=a=b"},
		"pods?namespace":                 {Resource: "pods", rest: "namespace"},
		"pods?namespace=a?labelSelector": {Resource: "pods", rest: "namespace=a?labelSelector"},
	} {
		got := ParseStreamName(text)
		if got != want || got.String() != text {
			t.Errorf("%q is read as %#v, and written as %q", text, got, got)
		}
		if unread := want.rest != ""; got.Readable() == unread || unread && !got.Selects() {
			t.Errorf("%q: readable %t, selects %t", text, got.Readable(), got.Selects())
		}
	}
	if got := ParseStreamName("pods?namespace=a&shard=0-of-2").Whole().String(); got != "pods?namespace=a" {
		t.Error(got)
	}
}
