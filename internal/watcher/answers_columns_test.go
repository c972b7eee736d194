package watcher_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// answer is what a server or a proxy gives in place of what it should: a column of the table.
type answer struct {
	name  string
	class class
	why   string    // the reasons that may be shown for it, "A|B"; "" is any
	on    []request // the requests that it can be given to; nil is all
	write func(*exchange)

	refused bool                     // the connection is
	cluster func() http.RoundTripper // the answer is another cluster's
	opaque  bool                     // versions in it are no numbers
	lasts   time.Duration            // where always would cost too much; 0 is always
}

// class is what can be concluded from an answer: answers of one class have one expectation.
type class int

const (
	harmless class = iota // says what the server says
	odd                   // may be read as what the server says, or not
	denied                // not for us, or not there
	refusal               // of what the request asks for
	perhaps               // such a refusal, or a fault of the server
	gone                  // the history
	broken                // anything else
	foreign               // another cluster's
	classes
)

var (
	forLists   = listRequests
	forWatches = []request{askStreamed, askWatch}
	forObjects = append(slices.Clone(listRequests), askWatch)
	forBodies  = []request{askVersion, askFirst, askLater, askWhole} // JSON of a list
)

// answers is every column.
func answers() []*answer {
	return slices.Concat(codes(), redirects(), bodies(), objects(), errorEvents(), events(), cuts(), slow(), encodings(), clusters())
}

// statusBody is a Status object.
func statusBody(code int, reason string, details map[string]any) string {
	s := map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "message": "it is broken", "code": code}
	if reason != "" {
		s["reason"] = reason
	}
	if details != nil {
		s["details"] = details
	}
	b, _ := json.Marshal(s)
	return string(b)
}

var tooLargeVersion = map[string]any{"causes": []any{map[string]any{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}}, "retryAfterSeconds": 1}

// codes are HTTP statuses, with a Status object or without.
func codes() []*answer {
	var all []*answer
	add := func(code int, class class, why, reason string, details map[string]any, header ...string) {
		name := fmt.Sprint(code)
		for _, more := range append([]string{reason}, header...) {
			if more != "" {
				name += " " + more
			}
		}
		all = append(all, &answer{name: name, class: class, why: why, write: func(x *exchange) {
			x.whole(code, "application/json", statusBody(code, reason, details), header...)
		}})
	}
	text := func(code int, class class, why, contentType, body string) {
		all = append(all, &answer{name: fmt.Sprintf("%d in %s", code, contentType), class: class, why: why, write: func(x *exchange) {
			x.whole(code, contentType, body)
		}})
	}
	const html, plain = "text/html", "text/plain"
	add(400, refusal, "BadRequest", "BadRequest", nil)
	text(400, refusal, "BadRequest", html, "<html>400 Bad Request</html>")
	add(401, denied, "Unauthorized", "Unauthorized", nil)
	text(401, denied, "Unauthorized", html, "<html>401 Authorization Required</html>")
	add(403, denied, "Forbidden", "Forbidden", nil)
	text(403, denied, "Forbidden", html, "<html>blocked by policy</html>")
	add(404, denied, "NotFound", "NotFound", nil)
	text(404, denied, "NotFound", plain, "404 page not found\n")
	add(405, denied, "MethodNotAllowed", "MethodNotAllowed", nil)
	add(406, broken, "", "NotAcceptable", nil)
	text(407, broken, "", html, "<html>Proxy Authentication Required</html>")
	add(408, broken, "", "", nil)
	add(409, broken, "", "Conflict", nil)
	add(410, gone, "Expired", "Expired", nil)
	add(410, gone, "Expired", "Gone", nil)
	text(410, gone, "Expired", plain, "gone")
	add(413, broken, "", "RequestEntityTooLarge", nil)
	text(414, broken, "", html, "<html>URI Too Long</html>")
	add(415, broken, "", "UnsupportedMediaType", nil)
	add(422, refusal, "BadRequest", "Invalid", nil)
	add(429, broken, "TooManyRequests", "TooManyRequests", nil)
	add(429, broken, "TooManyRequests", "TooManyRequests", map[string]any{"retryAfterSeconds": 1}, "Retry-After: 1")
	add(429, broken, "TooManyRequests", "TooManyRequests", map[string]any{"retryAfterSeconds": 86400}, "Retry-After: 86400")
	add(429, broken, "TooManyRequests", "", nil, "Retry-After: Thu, 01 Jan 2099 00:00:00 GMT")
	text(431, broken, "", plain, "Request Header Fields Too Large")
	add(500, perhaps, "ServerError", "InternalError", nil)
	add(501, broken, "ServerError", "", nil)
	text(502, broken, "ServerError", html, "<html>502 Bad Gateway</html>")
	add(503, broken, "ServerError", "ServiceUnavailable", nil)
	add(503, broken, "ServerError", "ServiceUnavailable", nil, "Retry-After: 5")
	text(503, broken, "ServerError", html, "<html>no healthy upstream</html>")
	add(504, broken, "Timeout|ServerError", "Timeout", nil)
	all = append(all, &answer{name: "504 ResourceVersionTooLarge", class: refusal, why: "Timeout|ServerError", write: func(x *exchange) {
		x.whole(504, "application/json", statusBody(504, "Timeout", tooLargeVersion))
	}})
	text(505, broken, "ServerError", plain, "HTTP Version Not Supported")
	text(511, broken, "ServerError", html, loginPage)
	text(599, broken, "ServerError", plain, "")
	text(999, broken, "ServerError", plain, "request denied")
	return append(all,
		&answer{name: "103, then nothing", class: broken, why: "Timeout", write: func(x *exchange) {
			x.head(103, "Link: </a>")
			x.hang()
		}},
		&answer{name: "101, then nothing", class: broken, write: func(x *exchange) {
			x.head(101, "Connection: Upgrade", "Upgrade: websocket")
			x.hang()
		}},
		&answer{name: "204", class: broken, write: func(x *exchange) { x.head(204, "X: y") }},
		&answer{name: "503 without an end", class: broken, write: func(x *exchange) {
			x.head(503, "Content-Type: text/html")
			for x.pause(5 * time.Second) {
				x.send("<p>please wait</p>")
			}
		}},
		&answer{name: "connection refused", class: broken, why: "ConnectionRefused", refused: true},
	)
}

// redirects send the client elsewhere.
func redirects() []*answer {
	to := func(code int, name, where string) *answer {
		return &answer{name: fmt.Sprintf("%d %s", code, name), class: broken, write: func(x *exchange) {
			location := where
			if where == "" {
				location = "http://" + x.r.Host + x.r.URL.String()
			}
			x.whole(code, "text/html", "<html>moved</html>", "Location: "+location)
		}}
	}
	none := to(302, "without a location", "")
	none.write = func(x *exchange) { x.whole(302, "text/html", "<html>moved</html>") }
	return []*answer{
		to(301, "to nowhere", "http://nowhere.invalid/"), to(307, "to nowhere", "http://nowhere.invalid/"),
		to(302, "to itself", ""), to(308, "to itself", ""),
		to(302, "to a login page", "/login"), to(307, "to a login page", "/login"), none,
	}
}

// bodies are answers with status 200 that hold something else.
func bodies() []*answer {
	is := func(name, contentType, body string, on ...request) *answer {
		return &answer{name: "200 " + name, class: broken, on: on, write: func(x *exchange) { x.whole(200, contentType, body) }}
	}
	const j = "application/json"
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"99999999-0000-0000-0000-000000000001","resourceVersion":"9"},"spec":{},"status":{}}` + "\n"
	success := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}` + "\n"
	named := func(contentType string) *answer {
		return &answer{name: "200 as " + contentType, class: odd, write: func(x *exchange) { x.relay(nil, "Content-Type: "+contentType) }}
	}
	return []*answer{
		is("empty", j, ""), is("{}", j, "{}"), is("null", j, "null"), is("[]", j, "[]"), is("string", j, `"ok"`),
		is("HTML", "text/html", loginPage), is("HTML as JSON", j, loginPage), is("text", "text/plain", "ok\n"),
		is("protobuf", "application/vnd.kubernetes.protobuf", "k8s\x00\n\x0c\n\x02v1\x12\x06Status"),
		is("Status Failure", j, statusBody(500, "InternalError", nil)), is("Status Success", j, success),
		is("Pod", j, pod), is("WatchEvent", j, `{"type":"ADDED","object":`+strings.TrimSpace(pod)+"}\n", forBodies...),
		{name: "200 a list for a watch", class: broken, on: forWatches, write: func(x *exchange) {
			kind := x.kind
			x.kind = askFirst
			defer func() { x.kind = kind }()
			x.begin()
			x.pieces(func(q map[string][]string) {
				delete(q, "watch")
				delete(q, "sendInitialEvents")
				delete(q, "resourceVersionMatch")
			}, func(p []byte) bool {
				x.chunk(p)
				return true
			})
			x.end()
		}},
		{name: "200 a watch for a list", class: broken, on: forBodies, write: func(x *exchange) {
			x.begin()
			x.kind = askWatch
			x.pieces(func(q map[string][]string) {
				q["watch"] = []string{"true"}
				delete(q, "limit")
				delete(q, "continue")
			}, func(p []byte) bool {
				x.chunk(p)
				return x.proxy.mended.Err() == nil
			})
		}},
		named("text/html"), named("application/octet-stream"), named("application/json;stream=watch"), named("x"),
	}
}

// objects are lists and events that lack something.
func objects() []*answer {
	meta := func(name string, class class, change func(map[string]any)) *answer {
		return &answer{name: name, class: class, on: forObjects, write: func(x *exchange) { x.alter(change, nil) }}
	}
	object := func(name string, change func(map[string]any)) *answer {
		return &answer{name: name, class: broken, on: forObjects, write: func(x *exchange) { x.alter(nil, change) }}
	}
	without := func(field string) func(map[string]any) {
		return func(o map[string]any) { delete(o["metadata"].(map[string]any), field) }
	}
	version := func(v string) func(map[string]any) {
		return func(m map[string]any) { m["resourceVersion"] = v }
	}
	malformed := meta("list at version abc", odd, version("abc"))
	malformed.opaque, malformed.on = true, forLists
	none, zero := meta("list without a version", broken, func(m map[string]any) { delete(m, "resourceVersion") }), meta("list at version 0", broken, version("0"))
	none.why, none.on, zero.why, zero.on = "NoResourceVersion", append(slices.Clone(forLists), askVersion), "NoResourceVersion", append(slices.Clone(forLists), askVersion)
	noBookmarkVersion := meta("bookmarks without a version", odd, func(m map[string]any) { delete(m, "resourceVersion") })
	backwards := meta("bookmarks that go back", odd, version("1"))
	noBookmarkVersion.on, backwards.on = []request{askWatch}, []request{askWatch}
	return []*answer{
		none, zero, malformed, noBookmarkVersion, backwards,
		object("objects without a version", without("resourceVersion")),
		object("objects at version 0", func(o map[string]any) { version("0")(o["metadata"].(map[string]any)) }),
		object("objects without a name", without("name")),
		object("objects without metadata", func(o map[string]any) { delete(o, "metadata") }),
		{name: "list without items", class: broken, on: forBodies, write: func(x *exchange) {
			x.begin()
			x.pieces(nil, func(p []byte) bool {
				x.chunk(append(bytes.TrimSuffix(p, []byte(`,"items":[`)), '}'))
				return false
			})
			x.end()
		}},
		{name: "null as an object", class: broken, on: forObjects, write: func(x *exchange) {
			if x.isWatch() {
				x.begin()
				x.chunk([]byte(`{"type":"ADDED","object":null}` + "\n"))
				x.hang()
				return
			}
			n := 0
			x.relay(func(p []byte) []byte {
				if n++; n == 2 {
					return []byte("null")
				}
				return p
			})
		}},
		{name: "an object of 65 MiB", class: broken, on: forObjects, lasts: 20 * time.Second, write: func(x *exchange) {
			x.begin()
			x.pieces(nil, func(p []byte) bool {
				if !x.isWatch() {
					x.chunk(p)
				}
				return false
			})
			if x.isWatch() {
				x.chunk([]byte(`{"type":"ADDED","object":`))
			}
			x.chunk([]byte(`{"metadata":{"name":"large"},"data":{"large":"`))
			for range 65 {
				x.chunk(oneMiB)
			}
			x.hang()
		}},
	}
}

var oneMiB = bytes.Repeat([]byte("x"), 1<<20)

// errorEvents are refusals inside of a watch.
func errorEvents() []*answer {
	var all []*answer
	add := func(name string, class class, why, object string) {
		all = append(all, &answer{name: "ERROR " + name, class: class, why: why, on: forWatches, write: func(x *exchange) {
			x.begin()
			x.chunk([]byte(`{"type":"ERROR","object":` + object + "}\n"))
			x.end()
		}})
	}
	for _, e := range []struct {
		code   int
		class  class
		why    string
		reason string
	}{
		{400, refusal, "BadRequest", "BadRequest"}, {401, denied, "Unauthorized", "Unauthorized"}, {403, denied, "Forbidden", "Forbidden"},
		{404, denied, "NotFound", "NotFound"}, {410, gone, "Expired", "Expired"}, {410, gone, "Expired", "Gone"}, {422, refusal, "BadRequest", "Invalid"},
		{429, broken, "TooManyRequests", "TooManyRequests"}, {500, perhaps, "ServerError", "InternalError"},
		{503, broken, "ServerError", "ServiceUnavailable"}, {504, broken, "Timeout|ServerError", "Timeout"},
	} {
		add(fmt.Sprint(e.code, " ", e.reason), e.class, e.why, statusBody(e.code, e.reason, nil))
	}
	add("504 ResourceVersionTooLarge", refusal, "Timeout|ServerError", statusBody(504, "Timeout", tooLargeVersion))
	add("without a code", broken, "", `{"kind":"Status","apiVersion":"v1","status":"Failure"}`)
	add("{}", broken, "", "{}")
	return all
}

// events are watches that tell something else.
func events() []*answer {
	repeated := func(every time.Duration) *answer {
		return &answer{name: fmt.Sprintf("an event every %v for ever", every), class: broken, on: []request{askStreamed}, write: func(x *exchange) {
			var first []byte
			x.pieces(nil, func(p []byte) bool {
				first = bytes.Clone(p)
				return false
			})
			x.begin()
			for x.pause(every) {
				x.chunk(first)
			}
		}}
	}
	return []*answer{
		repeated(500 * time.Millisecond), repeated(5 * time.Second),
		{name: "sendInitialEvents ignored", class: broken, on: []request{askStreamed}, write: func(x *exchange) {
			x.relay(func(p []byte) []byte {
				if bytes.Contains(p, []byte("k8s.io/initial-events-end")) {
					return nil
				}
				return p
			})
		}},
		{name: "initial events end without a version", class: broken, on: []request{askStreamed}, why: "NoResourceVersion", write: func(x *exchange) {
			x.alter(func(m map[string]any) { delete(m, "resourceVersion") }, nil)
		}},
		{name: "unknown type of event", class: broken, on: forWatches, write: func(x *exchange) {
			x.relay(func(p []byte) []byte { return bytes.Replace(p, []byte(`"ADDED"`), []byte(`"RENAMED"`), 1) })
		}},
		{name: "event without a type", class: broken, on: forWatches, write: func(x *exchange) {
			x.begin()
			x.chunk([]byte(`{"object":{"metadata":{"name":"a"}}}` + "\n"))
			x.end()
		}},
		{name: "ends at once", class: broken, on: forWatches, write: func(x *exchange) {
			x.begin()
			x.end()
		}},
	}
}

// cuts are connections that end, and that say nothing more.
func cuts() []*answer {
	var all []*answer
	for _, ph := range []phase{beforeHead, afterHead, withinObject, afterObject, beforeBrace, afterAll} {
		var on []request
		if ph == beforeBrace || ph == afterAll {
			on = []request{askVersion, askFirst, askLater, askWhole, askStreamed, askIdentity, askServed}
		}
		end, silence := broken, broken
		if ph == afterAll || ph == beforeBrace {
			end, silence = odd, odd
		}
		all = append(all,
			&answer{name: "cut " + string(ph), class: end, on: on, write: func(x *exchange) { x.upTo(ph) }},
			&answer{name: "silent " + string(ph), class: silence, on: on, write: func(x *exchange) {
				x.upTo(ph)
				x.hang()
			}},
		)
	}
	return append(all,
		&answer{name: "cut short of its length", class: broken, on: []request{askFirst, askLater, askWhole, askIdentity, askServed}, write: func(x *exchange) {
			x.head(200, "Content-Type: application/json", "Content-Length: 1000000")
			x.pieces(nil, func(p []byte) bool {
				x.send(string(p))
				return !bytes.HasSuffix(p, []byte(`"items":[`))
			})
		}},
		&answer{name: "in HTTP/1.0", class: harmless, write: func(x *exchange) {
			x.send("HTTP/1.0 200 OK\r\nContent-Type: " + x.contentType() + "\r\n\r\n")
			x.pieces(nil, func(p []byte) bool {
				x.send(string(p))
				return x.ctx.Err() == nil
			})
		}},
		&answer{name: "no HTTP", class: broken, write: func(x *exchange) { x.send("SSH-2.0-OpenSSH_9.6\r\n") }},
	)
}

// slow are answers that take their time, or have no end.
func slow() []*answer {
	late := func(d time.Duration, class class, why string) *answer {
		return &answer{name: fmt.Sprintf("after %v", d), class: class, why: why, write: func(x *exchange) {
			if x.pause(d) {
				x.relay(nil)
			}
		}}
	}
	pages := func(name string, token func() string) *answer {
		return &answer{name: name, class: broken, on: []request{askFirst, askLater, askWhole}, write: func(x *exchange) {
			x.r.URL.RawQuery = strings.Replace(x.r.URL.RawQuery, "continue=", "none=", 1) // the first page, over and over
			x.alter(func(m map[string]any) { m["continue"] = token() }, nil)
		}}
	}
	var n atomic.Int64
	return []*answer{
		late(20*time.Second, harmless, ""), late(40*time.Second, broken, "Timeout"),
		{name: "1 byte per second", class: odd, write: func(x *exchange) {
			x.begin()
			x.pieces(nil, func(p []byte) bool {
				for i := range p {
					if !x.pause(time.Second) {
						return false
					}
					x.chunk(p[i : i+1])
				}
				return true
			})
			x.end()
		}},
		{name: "headers, 1 line per second, for ever", class: broken, why: "Timeout", write: func(x *exchange) {
			for x.send("HTTP/1.1 200 OK\r\n"); x.pause(time.Second); {
				x.send("X-Filler: x\r\n")
			}
		}},
		{name: "headers of 11 MB", class: broken, lasts: 20 * time.Second, write: func(x *exchange) {
			x.send("HTTP/1.1 200 OK\r\n")
			for range 11 {
				x.send("X-Filler: " + string(oneMiB) + "\r\n")
			}
		}},
		{name: "an object every 5s for ever", class: broken, on: []request{askFirst, askLater, askWhole}, write: func(x *exchange) {
			var head, first []byte
			x.pieces(nil, func(p []byte) bool {
				head, first = first, bytes.Clone(p)
				return head == nil
			})
			x.begin()
			x.chunk(head)
			for x.chunk(first); x.pause(5 * time.Second); {
				x.chunk(append([]byte{','}, first...))
			}
		}},
		pages("pages for ever, one token", func() string { return "again" }),
		pages("pages for ever, other tokens", func() string { return fmt.Sprint("again", n.Add(1)) }),
	}
}

// encodings are compressed answers, and what is taken for one.
func encodings() []*answer {
	zip := func(x *exchange, header []string, cut bool) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		x.begin(header...)
		n := 0
		x.pieces(nil, func(p []byte) bool {
			_, _ = z.Write(p)
			_ = z.Flush()
			out := bytes.Clone(b.Bytes())
			b.Reset()
			if n++; cut && (n == 2 || x.isWatch()) {
				out = out[:len(out)/2]
			}
			x.chunk(out)
			return !cut || n < 2 && !x.isWatch()
		})
		if !cut {
			_ = z.Close()
			x.chunk(b.Bytes())
		}
		x.end()
	}
	return []*answer{
		{name: "gzip", class: harmless, write: func(x *exchange) { zip(x, []string{"Content-Encoding: gzip"}, false) }},
		{name: "gzip, truncated", class: broken, write: func(x *exchange) { zip(x, []string{"Content-Encoding: gzip"}, true) }},
		{name: "gzip that is not announced", class: broken, write: func(x *exchange) { zip(x, nil, false) }},
		{name: "announced as gzip, plain", class: broken, write: func(x *exchange) { x.relay(nil, "Content-Encoding: gzip") }},
		{name: "encoded in an unknown way", class: odd, write: func(x *exchange) { x.relay(nil, "Content-Encoding: br") }},
	}
}

// clusters are healthy answers of another cluster, whose versions are after ours or ahead. A cell sets the cluster.
func clusters() []*answer {
	return []*answer{
		{name: "another cluster, behind", class: foreign},
		{name: "another cluster, ahead", class: foreign},
	}
}
