package columns

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/ask/columns"
	"kubejournal/internal/format/builtin"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

var (
	update = flag.Bool("update", false, "write the golden rows of internal/ask/columns anew")
	seed   = flag.Int64("seed", 1, "of the random objects")
	each   = flag.Int("each", 25, "random objects of a resource, and ten times that of pods")
)

// reworded are the columns whose description k8s.io/api, which is of another minor than the server, has in other words.
// They are texts of the API's documentation, which kubectl get does not show.
var reworded = map[string]string{
	"clusterrolebindings.v1.rbac.authorization.k8s.io": "Role",
	"ipaddresses.v1.networking.k8s.io":                 "ParentRef",
	"resourceslices.v1.resource.k8s.io":                "Pool",
	"rolebindings.v1.rbac.authorization.k8s.io":        "Role",
	"servicecidrs.v1.networking.k8s.io":                "CIDRs",
	"volumeattributesclasses.v1.storage.k8s.io":        "DriverName",
}

// table is a Table, its parts as the server sent them.
type table struct {
	ColumnDefinitions json.RawMessage
	Rows              []struct {
		Cells  []json.RawMessage
		Object json.RawMessage
	}
}

// row is a golden row.
type row struct {
	Resource string            `json:"resource"`
	Time     time.Time         `json:"time"`
	Cells    []json.RawMessage `json:"cells"`
	Object   json.RawMessage   `json:"object"`
}

func TestTables(t *testing.T) {
	ctx := t.Context()
	c, err := cluster.Start(ctx, cluster.Options{TimeLimit: 8 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	objects, named, random := stored(t)
	if err := c.Store(ctx, objects); err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)

	rows := 0
	var golden []row
	definitions := make(map[string]json.RawMessage)
	for r := range builtin.All() {
		key := r.Resource + "." + r.Version + "." + r.Group
		path := "/apis/" + r.Group + "/" + r.Version
		if r.Group == "" {
			path = "/api/" + r.Version
		}
		printer := columns.For(r.Group, r.Version, r.Resource)
		if printer == nil {
			t.Errorf("%s: no printer", key)
			continue
		}
		before := time.Now()
		list := get(t, client, c.RESTConfig().Host+path+"/"+r.Resource+"?includeObject=Object")
		after := time.Now()
		definitions[key] = compareColumns(t, key, list.ColumnDefinitions, printer.Columns)
		for _, o := range list.Rows {
			rows++
			name := nameOf(t, o.Object)
			delete(random, key+" "+name)
			at := compareCells(t, key+" "+name, printer, o.Object, o.Cells, before, after)
			if named[key+" "+name] {
				delete(named, key+" "+name)
				if !at.IsZero() {
					golden = append(golden, row{key, at, o.Cells, o.Object})
				}
			}
		}
	}
	maps.Copy(random, named)
	for missing := range random {
		t.Errorf("%s is in etcd, and in no table", missing)
	}
	t.Logf("seed %d: %d rows, of %d objects stored", *seed, rows, len(objects))
	if *update && !t.Failed() {
		write(t, definitions, golden)
	}
}

// stored returns objects by their keys in etcd, and the names of those of testdata and of the random ones.
func stored(t *testing.T) (objects map[string][]byte, named, random map[string]bool) {
	objects, named, random = make(map[string][]byte), make(map[string]bool), make(map[string]bool)
	text, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(withTimes(text, time.Now())), "\n---\n") {
		object, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		r, err := resourceOf(object)
		if err != nil {
			t.Fatal(err)
		}
		named[r+" "+nameOf(t, object)] = true
		objects[etcdKey(t, r, object)] = object
	}
	f := newFiller(*seed)
	for r := range builtin.All() {
		key := r.Resource + "." + r.Version + "." + r.Group
		n := *each
		if key == "pods.v1." {
			n *= 10
		}
		for i := range n {
			object := f.object(r, fmt.Sprintf("random-%d", i))
			if object == nil {
				break
			}
			random[key+" "+nameOf(t, object)] = true
			objects[etcdKey(t, key, object)] = object
		}
	}
	return objects, named, random
}

var relative = regexp.MustCompile(`(TIME|MICRO)-([0-9]+)([smhd])`)

// withTimes makes times of how long ago they are.
func withTimes(text []byte, now time.Time) []byte {
	return relative.ReplaceAllFunc(text, func(match []byte) []byte {
		part := relative.FindSubmatch(match)
		ago, _ := time.ParseDuration(string(part[2]) + strings.Replace(string(part[3]), "d", "h", 1))
		if string(part[3]) == "d" {
			ago *= 24
		}
		layout := time.RFC3339
		if string(part[1]) == "MICRO" {
			layout = metav1.RFC3339Micro
		}
		return []byte(`"` + now.Add(-ago).UTC().Format(layout) + `"`)
	})
}

func resourceOf(object []byte) (string, error) {
	var o metav1.TypeMeta
	if err := json.Unmarshal(object, &o); err != nil {
		return "", err
	}
	for r := range builtin.All() {
		if r.Kind == o.Kind && strings.TrimPrefix(r.Group+"/"+r.Version, "/") == o.APIVersion {
			return r.Resource + "." + r.Version + "." + r.Group, nil
		}
	}
	return "", fmt.Errorf("no resource is %v", o)
}

// etcdKey is where the server stores an object.
func etcdKey(t *testing.T, resource string, object []byte) string {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatal(err)
	}
	folder, _, _ := strings.Cut(resource, ".")
	switch folder {
	case "nodes":
		folder = "minions"
	case "services":
		folder = "services/specs"
	case "endpoints":
		folder = "services/endpoints"
	case "replicationcontrollers":
		folder = "controllers"
	case "ingresses":
		folder = "ingress"
	case "customresourcedefinitions":
		folder = "apiextensions.k8s.io/" + folder
	case "apiservices":
		folder = "apiregistration.k8s.io/" + folder
	}
	return strings.Join(slices.DeleteFunc([]string{"/registry", folder, o.Namespace, o.Name}, func(s string) bool { return s == "" }), "/")
}

func nameOf(t *testing.T, object []byte) string {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// get lists a resource, again where the server is too busy to answer.
func get(t *testing.T, client *http.Client, url string) (list table) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	err = program.Eventually(t.Context(), time.Minute, url, func() error {
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s: %s", response.Status, body)
		}
		list = table{}
		return json.Unmarshal(body, &list)
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// compareColumns returns the server's columns, without the descriptions that are known to differ.
func compareColumns(t *testing.T, resource string, server json.RawMessage, got []metav1.TableColumnDefinition) json.RawMessage {
	t.Helper()
	var want []metav1.TableColumnDefinition
	if err := json.Unmarshal(server, &want); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%s: columns\n%s, want\n%s", resource, encode(t, got), server)
		return nil
	}
	var golden []map[string]any
	if err := json.Unmarshal(server, &golden); err != nil {
		t.Fatal(err)
	}
	for i, c := range got {
		if reworded[resource] == c.Name {
			if c.Description == want[i].Description {
				t.Errorf("%s: column %s is described as by the server, and listed as reworded", resource, c.Name)
			}
			c.Description = want[i].Description
			delete(golden[i], "description")
		}
		if c != want[i] {
			t.Errorf("%s: column\n%+v, want\n%+v", resource, c, want[i])
		}
	}
	return encode(t, golden)
}

// compareCells compares the cells of a row with those printed at the times at which the server may have printed it. It
// returns one at which all of them are the server's, or zero.
func compareCells(t *testing.T, what string, p *columns.Printer, object []byte, want []json.RawMessage, before, after time.Time) (same time.Time) {
	t.Helper()
	var moments []time.Time // no cell changes more often than once in a second
	for at := before; at.Before(after); at = at.Add(time.Second) {
		moments = append(moments, at)
	}
	moments = append(moments, after)
	found := make([]bool, len(want))
	var last []json.RawMessage
	for _, at := range moments {
		cells, err := p.Row(object, at)
		if err != nil {
			t.Errorf("%s: %v of\n%s", what, err, object)
			return time.Time{}
		}
		last = nil
		for _, c := range cells {
			last = append(last, encode(t, c))
		}
		if slices.EqualFunc(last, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			return at
		}
		for i := range min(len(last), len(want)) {
			found[i] = found[i] || bytes.Equal(last[i], want[i])
		}
	}
	if len(last) != len(want) || slices.Contains(found, false) {
		t.Errorf("%s: cells\n%s, want\n%s\nof %s", what, last, want, object)
	}
	return time.Time{}
}

func encode(t *testing.T, value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// write writes what internal/ask/columns is tested by without a server.
func write(t *testing.T, definitions map[string]json.RawMessage, golden []row) {
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "internal", "ask", "columns", "testdata")
	var rows bytes.Buffer
	for _, r := range golden {
		rows.Write(append(encode(t, r), '\n'))
	}
	text, err := json.MarshalIndent(definitions, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"columns.json": append(text, '\n'), "rows.jsonl": rows.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
