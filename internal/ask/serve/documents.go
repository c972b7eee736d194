package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	discoveryv2 "k8s.io/api/apidiscovery/v2"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/format/builtin"
)

// askedLately is how long ago the API server may have been asked last, for what it served then to be taken for what it
// serves now.
const askedLately = 2 * time.Minute

// openDocuments opens what the daemons have recorded of what the API server said of itself: versions, discovery,
// OpenAPI. s.mu is held.
func (s *source) openDocuments() (all []*apidocs.Documents) {
	for _, path := range s.paths {
		d, err := apidocs.Open(path)
		if d != nil {
			all, err = append(all, d), d.Damaged
		}
		if err != nil {
			s.fault(err)
		}
	}
	return all
}

// fault tells of what cannot be read, once.
func (s *source) fault(err error) {
	if _, told := s.faults.LoadOrStore(err.Error(), true); !told && s.notice != nil {
		s.notice(err.Error())
	}
}

// recorded returns what the API server said of itself at a moment, nil where that is not recorded, and why it may have
// said something else. Of several journals, each of which has its own record, it is the one whose daemon asked next to
// the moment. p.mu is held.
func (p *past) recorded(
	ctx context.Context, at argument.Moment,
) (nearest *apidocs.Moment, doubt string, err error) {
	if at.Seq > 0 {
		if at.Time, err = p.j.TimeOf(ctx, at.Seq); err != nil {
			return nil, "", err
		}
	}
	var least time.Duration
	for _, d := range p.documents {
		t := at.Time
		if all := d.Spans(); at.IsLatest() && len(all) > 0 {
			if last := all[len(all)-1].Until; t.Sub(last) < askedLately {
				t = last
			}
		}
		m, why, err := d.At(t)
		if err != nil {
			p.fault(err)
		}
		if m == nil {
			continue
		}
		if away := max(m.Since.Sub(t), t.Sub(m.Until), 0); nearest == nil || away < least {
			nearest, doubt, least = m, why, away
		}
	}
	return nearest, doubt, nil
}

// discovered returns the groups of recorded discovery, in the order in which clients prefer them, and why they may not
// be those of the moment. There are none where it is not recorded, or cannot be read. p.mu is held.
func (p *past) discovered(
	ctx context.Context, at argument.Moment,
) (all []discoveryv2.APIGroupDiscovery, doubt string, err error) {
	m, doubt, err := p.recorded(ctx, at)
	if m == nil {
		return nil, "", err
	}
	for _, path := range []string{"/api", "/apis"} {
		doc, _, ok := m.Document(path)
		if !ok {
			return nil, "", nil
		}
		list := p.discovery[doc.Sum]
		if list == nil {
			text, err := m.Read(doc)
			if err == nil {
				err = json.Unmarshal(text, &list)
			}
			if err != nil {
				p.fault(err)
				return nil, "the record of what the API server served cannot be read: this is what the journal has, and what " +
					"Kubernetes itself has", nil
			}
			p.discovery[doc.Sum] = list
		}
		all = append(all, list.Items...)
	}
	return all, doubt, nil
}

// errUnrecorded says that it is not recorded what the API server said at a path.
var errUnrecorded = errors.New("the journal does not have the cluster's OpenAPI documents, which kubectl explain needs")

// document answers with what the API server said at a path.
func (s *Server) document(w http.ResponseWriter, r *http.Request, path string) error {
	var doc apidocs.Document
	var text []byte
	err := s.source.ask(r.Context(), func(p *past) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		m, doubt, err := p.recorded(r.Context(), s.moment())
		switch {
		case err != nil:
			return err
		case m == nil:
			return errUnrecorded
		}
		var why string
		var ok bool
		if doc, why, ok = m.Document(path); !ok && why != "" {
			return fmt.Errorf("%w: %s", errUnrecorded, why)
		}
		warn(w, doubt)
		if !ok {
			return errNoPath
		}
		text, err = m.Read(doc)
		return err
	})
	if err != nil {
		return err
	}
	mediaType, etag := jsonType, doc.ETag // whatever an API server of somebody else calls it
	accept, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	if path == "/openapi/v2" && (accept == openapiProtobuf || accept == protobufAsked) {
		mediaType, etag = openapiProtobuf, strings.TrimSuffix(etag, `"`)+`-protobuf"`
		text, err = inProtobuf(text)
	} else {
		_, err = negotiate(r.Header.Get("Accept"), func(f form) bool { return f == form{} })
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Vary", "Accept")
	if doc.ETag != "" {
		h.Set("Etag", etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	return nil
}

// OpenAPI v2 in protobuf, as clients before v1.27 need it for explain, and the name by which they ask for it.
const (
	openapiProtobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	protobufAsked   = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

func inProtobuf(text []byte) ([]byte, error) {
	document, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(document)
}

// warn warns of what is in doubt of discovery.
func (p *past) warn(ctx context.Context, w http.ResponseWriter, at argument.Moment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, doubt, err := p.discovered(ctx, at)
	warn(w, doubt)
	if err != nil {
		return err
	}
	all, err := p.watched(ctx)
	custom := func(s watched) bool { return builtin.IsCustom(argument.Named(s.Stream)) }
	if err != nil || !slices.ContainsFunc(all, custom) {
		return err
	}
	_, known, err := p.definitions(ctx, at)
	if err == nil && !known {
		warn(w, "it is not known which CustomResourceDefinitions there were")
	}
	return err
}
