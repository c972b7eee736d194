package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// documentWait is how long a document may take in all: a server may have to make OpenAPI v2 first.
const documentWait = 2 * time.Minute

// Document is the answer to a path that is no resource, such as a part of discovery or OpenAPI. Its bytes come as they
// are read, and it must be closed.
type Document struct {
	io.Reader
	Type, ETag string

	body io.Closer
	cut  context.CancelFunc
}

// NewDocument returns a document that is read from r, for tests.
func NewDocument(r io.Reader, contentType, etag string) *Document {
	return &Document{Reader: r, Type: contentType, ETag: etag, body: io.NopCloser(r), cut: func() {}}
}

// Close ends the request.
func (d *Document) Close() error {
	d.cut()
	return d.body.Close()
}

// Document asks for a path, in one of the forms that accept names. hash is the query of that name, "" for none. The
// document is nil where the server says that it has still the one that etag names.
func (c *Client) Document(ctx context.Context, path, hash, accept, etag string) (*Document, error) {
	of := c.rest.Get().AbsPath(path)
	if hash != "" {
		of.Param("hash", hash)
	}
	ctx, cancel := context.WithTimeout(ctx, documentWait)
	do := func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, of.URL().String(), http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", accept)
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		return c.http.Do(r)
	}
	response, err := answered(ctx, cancel, do) //nolint:bodyclose // Close does
	if err != nil {
		cancel()
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	d := &Document{
		Reader: &patientReader{response.Body, cancel, documentWait},
		Type:   response.Header.Get("Content-Type"), ETag: response.Header.Get("Etag"),
		body: response.Body, cut: cancel,
	}
	switch response.StatusCode {
	case http.StatusOK:
		return d, nil
	case http.StatusNotModified:
		return nil, d.Close()
	}
	_ = d.Close() // nobody reads it
	return nil, fmt.Errorf("get %s: %w", path,
		apierrors.NewGenericServerResponse(response.StatusCode, "get", schema.GroupResource{}, path, "", 0, true))
}
