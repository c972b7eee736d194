package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubejournal/internal/kube/client"
)

// listing is what came of a list of one object.
type listing struct {
	unversioned bool  // it has no resourceVersion, so no watch can follow it
	err         error // why there was none
}

// finding says what is wrong with it; "" where nothing is.
func (l *listing) finding() string {
	switch {
	case l.unversioned:
		return "its lists have no resourceVersion, so it cannot be followed"
	case l.err != nil:
		return "its list fails: " + oneLine(l.err.Error())
	}
	return ""
}

// list asks for a list of one object of each target that is not nil, a few at a time. What is wrong with a resource is
// in its listing; the error is only that of ctx.
func (s *Server) list(ctx context.Context, targets []*client.Target) ([]listing, error) {
	all := make([]listing, len(targets))
	var group errgroup.Group
	group.SetLimit(questionsAtOnce)
	for i, t := range targets {
		if t == nil {
			continue
		}
		group.Go(func() error {
			all[i].unversioned, all[i].err = s.listOne(ctx, t)
			return ctx.Err()
		})
	}
	return all, group.Wait()
}

// listOne reports whether a list has no version.
func (s *Server) listOne(ctx context.Context, t *client.Target) (unversioned bool, err error) {
	request := s.client.Get().AbsPath(t.Path()...).SetHeader("Accept", "application/json").Param("limit", "1")
	if t.LabelSelector != "" {
		request.Param("labelSelector", t.LabelSelector)
	}
	if t.FieldSelector != "" {
		request.Param("fieldSelector", t.FieldSelector)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return false, err
	}
	defer body.Close()
	version, err := listVersion(body)
	if err != nil {
		return false, fmt.Errorf("the answer is not a list: %w", err)
	}
	return !client.IsPosition(version), nil
}

// listVersion reads the resourceVersion of a list, and keeps none of its objects: a server may send all of them.
func listVersion(r io.Reader) (version string, err error) {
	d := json.NewDecoder(r)
	if start, err := d.Token(); err != nil {
		return "", err
	} else if start != json.Delim('{') {
		return "", errors.New("it is not a JSON object")
	}
	items := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", err
		}
		if name == "metadata" {
			var meta client.ListMeta
			if err := d.Decode(&meta); err != nil {
				return "", err
			}
			version = meta.ResourceVersion
			continue
		}
		items = items || name == "items"
		if err := skipValue(d); err != nil {
			return "", err
		}
	}
	if _, err := d.Token(); err != nil { // its end, or that of the answer
		return "", err
	}
	if !items {
		return "", errors.New("it has no items")
	}
	return version, nil
}

// skipValue reads past a value.
func skipValue(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// refusesFields reports whether the server does not select by the fields of a target.
func (l *listing) refusesFields(t *client.Target) bool {
	return t.FieldSelector != "" && (apierrors.IsBadRequest(l.err) || apierrors.IsInvalid(l.err))
}
