package object

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// MaxID bounds an id, in bytes: Elasticsearch takes no longer one as a document's.
const MaxID = 512

// id has the parts of an id, each as the inside of a JSON string. An id consists of the first part, the scope unless it
// is empty, and the version, each followed by a slash, and then the type. So the ids of one object at one version
// differ only after the last slash.
type id struct {
	about   []byte // the object's uid, or its resource, namespace and name; the stream of a line about a stream
	scope   []byte // see Distinguish
	version []byte
}

// Distinguish puts the name of the stream into the ids of objects, because another stream of the journal can have the
// same objects; "" leaves it out. It may be called while another goroutine writes lines.
func (r *Renderer) Distinguish(stream string) {
	scope := inside(stream)
	r.scope.Store(&scope)
}

// objectID returns the id of an object at a version, valid until the next call.
func (r *Renderer) objectID(n *names) *id {
	of := &r.id
	of.about, of.scope, of.version = n.uid, *r.scope.Load(), n.version
	if len(n.uid) == 0 && len(n.name) > 0 {
		r.about = append(append(r.about[:0], r.resource...), '/')
		if len(n.namespace) > 0 {
			r.about = append(append(r.about, n.namespace...), '/')
		}
		r.about = append(r.about, n.name...)
		of.about = r.about
	}
	return of
}

// streamID returns the id of a line about the stream at a version.
func (r *Renderer) streamID(version []byte) *id { return &id{about: r.stream, version: version} }

// appendID appends an id. One that would be longer than MaxID is shortened.
func appendID(dst []byte, of *id, t line.Type) []byte {
	start := len(dst)
	dst = append(append(dst, of.about...), '/')
	if len(of.scope) > 0 {
		dst = append(append(dst, of.scope...), '/')
	}
	dst = append(append(dst, of.version...), '/')
	if len(dst)-start > MaxID-len(line.Modified) {
		dst = shortenID(dst, start, t)
	}
	return append(dst, t...)
}

// shortenID shortens the id that begins at start, which comes without its type.
func shortenID(dst []byte, start int, t line.Type) []byte {
	room := MaxID - len(t)
	if t == line.Added || t == line.Deleted {
		room = MaxID - len(line.Modified)
	}
	if len(dst)-start <= room {
		return dst
	}
	short := shorten(string(rawjson.Unquote(nil, dst[start:])), room)
	return rawjson.AppendEscaped(dst[:start], short)
}

// shorten cuts an id, which comes without its type and so ends with a slash, to that many bytes: its beginning, a
// digest of the whole id, and its version unless that is itself long.
func shorten(id string, room int) string {
	if len(id) <= room {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	digest := "~" + hex.EncodeToString(sum[:16])
	end := id[strings.LastIndexByte(id[:len(id)-1], '/'):]
	if len(end) > room/2 {
		end = "/"
	}
	begin := id[:room-len(digest)-len(end)]
	for len(begin) > 0 && !utf8.ValidString(begin) {
		begin = begin[:len(begin)-1]
	}
	return begin + digest + end
}
