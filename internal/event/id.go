package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"kubejournal/internal/rawjson"
)

// MaxID bounds an id, in bytes: Elasticsearch takes no longer one as a document's.
const MaxID = 512

// id has the parts of an id, each as the inside of a JSON string. An id consists of the parts that are not empty, then
// the version, each followed by a slash, and then the type. So the ids of one object at one version differ only after
// the last slash.
type id struct {
	about   [3][]byte // the object's uid, or its resource, namespace and name; the stream of a line about a stream
	scope   []byte    // see Distinguish
	version []byte
}

// Distinguish puts the name of the stream into the ids of objects, because another stream of the journal can have the
// same objects; "" leaves it out. It may be called while another goroutine writes lines.
func (r *Renderer) Distinguish(stream string) {
	scope := inside(stream)
	r.scope.Store(&scope)
}

// objectID returns the id of an object at a version.
func (r *Renderer) objectID(n names) id {
	of := id{about: [3][]byte{n.uid}, scope: *r.scope.Load(), version: n.version}
	if len(n.uid) == 0 && len(n.name) > 0 {
		of.about = [3][]byte{r.resource, n.namespace, n.name}
	}
	return of
}

// streamID returns the id of a line about the stream at a version.
func (r *Renderer) streamID(version []byte) id {
	return id{about: [3][]byte{r.stream}, version: version}
}

// appendID appends an id. One that would be longer than MaxID is shortened.
func appendID(dst []byte, of id, t Type) []byte {
	start := len(dst)
	for _, part := range [...][]byte{of.about[0], of.about[1], of.about[2], of.scope} {
		if len(part) > 0 {
			dst = append(append(dst, part...), '/')
		}
	}
	if len(dst) == start {
		dst = append(dst, '/')
	}
	dst = append(append(dst, of.version...), '/')
	room := MaxID - len(t)
	if t == Added || t == Deleted {
		room = MaxID - len(Modified)
	}
	if len(dst)-start > room {
		short := shorten(string(rawjson.Unquote(nil, dst[start:])), room)
		dst = rawjson.AppendEscaped(dst[:start], short)
	}
	return append(dst, t...)
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
