package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kubejournal/test/invariant"
)

// moment is a time at which nothing changed, and all objects of all kinds that are journalled as kubectl shows them.
type moment struct {
	at, kinds string
	objects   map[string]string
}

// record waits for such a time.
func (s *shop) record() (m moment) {
	s.t.Helper()
	s.eventually("nothing changes", func(ctx context.Context) error {
		streams, err := s.daemon.Streams(ctx)
		if err != nil {
			return err
		}
		var kinds []string
		for _, stream := range streams {
			if stream.Stream != "leases.coordination.k8s.io" { // the API server renews its own all the time
				kinds = append(kinds, stream.Stream)
			}
		}
		m.kinds = strings.Join(kinds, ",")
		shown := s.kubectl(nil, []string{"is deprecated"}, "get", m.kinds, "-A", "-o", "yaml")
		if m.objects, err = split(shown); err != nil {
			return err
		}
		if err := s.journalled(m.objects); err != nil {
			return err
		}
		m.at = time.Now().UTC().Format(time.RFC3339Nano)
		if again := s.kubectl(nil, []string{"is deprecated"}, "get", m.kinds, "-A", "-o", "yaml"); again != shown {
			err = errors.New("something has changed")
		}
		return err
	})
	return m
}

// journalled checks that the journal has these objects, in these versions, and no others.
func (s *shop) journalled(objects map[string]string) error {
	lines, err := invariant.ReadJournal(filepath.Join(s.dir, "journal.jsonl"))
	if err != nil {
		return err
	}
	want, got := make(map[string]string), make(map[string]string)
	for _, text := range objects {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		want[string(o.UID)] = o.ResourceVersion
	}
	for i := range lines {
		switch l := &lines[i]; l.Type {
		case invariant.Added, invariant.Modified:
			if l.Resource == "leases" {
				continue
			}
			got[l.UID] = l.ResourceVersion
		case invariant.Deleted:
			delete(got, l.UID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the journal has other objects: %s", diff)
	}
	return nil
}

// split returns the items of a List, by kind, namespace and name.
func split(list string) (map[string]string, error) {
	objects := make(map[string]string)
	text, end, found := strings.Cut(strings.TrimPrefix(list, "apiVersion: v1\nitems:\n- "), "\nkind: List\n")
	if !found || end != "metadata:\n  resourceVersion: \"\"\n" {
		return nil, fmt.Errorf("no list ends with %q", end)
	}
	for item := range strings.SplitSeq(text, "\n- ") {
		item = strings.ReplaceAll(item, "\n  ", "\n")
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(item), &o.Object); err != nil {
			return nil, err
		}
		objects[fmt.Sprint(keyOf(&o))] = item
	}
	return objects, nil
}

// checkMoment compares what kubejournal says of a moment with what kubectl showed then, to the byte.
func (s *shop) checkMoment(m moment) {
	s.t.Helper()
	var shown string
	s.eventually("the moment is covered", func(context.Context) (err error) {
		stdout, notes, status := s.ask("get", m.kinds, "-A", "-o", "yaml", "--at", m.at)
		if shown = stdout; status != 0 || notes != "" {
			err = fmt.Errorf("status %d: %s", status, notes)
		}
		return err
	})
	got, err := split(shown)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(m.objects, got); diff != "" {
		s.t.Errorf("kubejournal get --at %s (-kubectl +kubejournal):\n%s", m.at, diff)
	}
	kinds := make(map[string]bool)
	for k := range got {
		kinds[strings.Fields(k)[0]] = true
	}
	if s.t.Logf("%d objects of %d kinds at %s", len(got), len(kinds), m.at); len(kinds) < 45 {
		s.t.Errorf("%d kinds: %v", len(kinds), kinds)
	}
}

// checkVersions compares the objects of each resource at three of its versions with the server's list at exactly that one.
func (s *shop) checkVersions() {
	s.t.Helper()
	lines, err := invariant.ReadJournal(filepath.Join(s.dir, "journal.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	versions, resources := make(map[string][]uint64), make(map[string]schema.GroupVersionResource)
	for i := range lines {
		l := &lines[i]
		number, err := strconv.ParseUint(l.ResourceVersion, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		if l.Origin != invariant.FromSnapshot { // whose versions are of before the first list
			versions[l.Stream] = append(versions[l.Stream], number)
		}
		resources[l.Stream] = schema.GroupVersionResource{Group: l.Group, Version: l.Version, Resource: l.Resource}
	}
	count := 0
	for stream, all := range versions {
		slices.Sort(all)
		for _, version := range slices.Compact([]uint64{all[0], all[len(all)/2], all[len(all)-1]}) {
			at := strconv.FormatUint(version, 10)
			list, err := s.client.Resource(resources[stream]).List(s.t.Context(), metav1.ListOptions{ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if apierrors.IsResourceExpired(err) || apierrors.IsNotFound(err) {
				continue // the server does not remember it, or the definition was deleted since
			}
			if err != nil {
				s.t.Fatalf("%s at %s: %v", stream, at, err)
			}
			r := resources[stream]
			stdout, notes, status := s.ask("get", r.Resource+"."+r.Version+"."+r.Group, "-A", "-o", "json", "--at", "rv:"+at)
			var got unstructured.UnstructuredList
			if err := json.Unmarshal([]byte(stdout), &got); status != 0 || err != nil {
				s.t.Errorf("%s at %s: status %d, %v\n%s", stream, at, status, err, notes)
				continue
			}
			want := items(list)
			if diff := cmp.Diff(want, items(&got)); diff != "" {
				s.t.Errorf("%s at %s (-server +kubejournal):\n%s", stream, at, diff)
			}
			count++
		}
	}
	if s.t.Logf("%d lists at exact versions", count); count < 100 {
		s.t.Errorf("%d versions were compared", count)
	}
}

// items returns the objects of a list without what the journal leaves out.
func items(list *unstructured.UnstructuredList) map[key]map[string]any {
	objects := make(map[key]map[string]any)
	for i := range list.Items {
		o := &list.Items[i]
		o.SetManagedFields(nil)
		objects[keyOf(o)] = o.Object
	}
	return objects
}
