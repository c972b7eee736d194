package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/command"
)

// served is which moment is served, until it is moved.
type served struct {
	at    argument.Moment // that stays, or the latest; for the one that moves on, where it began
	speed float64         // times as fast as time goes; 0: it stays
	begun time.Time
	moved chan struct{} // closed when another one is served
}

func newServed(at argument.Moment, speed float64) *served {
	return &served{at: at, speed: speed, begun: time.Now(), moved: make(chan struct{})}
}

// moves reports whether the moment is another one later.
func (v *served) moves() bool { return v.at.IsLatest() || v.speed > 0 }

func (v *served) moment() argument.Moment {
	switch {
	case v.at.IsLatest():
		return argument.Latest()
	case v.speed > 0:
		at := v.at.Time.Add(time.Duration(float64(time.Since(v.begun)) * v.speed))
		if now := time.Now(); at.After(now) {
			at = now
		}
		return argument.Moment{Time: at}
	}
	return v.at
}

func (v *served) String() string {
	if at := v.moment(); !at.IsLatest() {
		return "as of " + at.String()
	}
	return "as of the journal's last line"
}

// Move serves another moment; one that moves on goes on from there. Watches end as on a server that has lost its
// history, so that clients list again.
func (s *Server) Move(ctx context.Context, at argument.Moment) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	was := s.served.Load()
	next, err := s.source.moved(ctx, newServed(at, was.speed))
	if err != nil {
		return err
	}
	s.served.Store(next)
	close(was.moved)
	return nil
}

// pathOfMoment is where a server says which moment it serves, and is told to serve another one.
const pathOfMoment = "/kubejournal/moment"

// momentBody is a moment as it is read and written.
type momentBody struct {
	At   string `json:"at"`             // a TIME, as the commands take it
	Says string `json:"says,omitempty"` // what is served, for people
}

// tellMoment answers with the moment that is served, after it was moved if a client asks for that.
func (s *Server) tellMoment(w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut:
		var to momentBody
		// Of this type a browser asks for leave before it lets a page of another site send anything.
		if is, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || is != jsonType {
			return failed(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
				"the body is to be %s", jsonType)
		}
		if err := json.NewDecoder(r.Body).Decode(&to); err != nil {
			return badRequest("the body is not a moment: %v", err)
		}
		at, err := command.ParseTime("at", to.At)
		switch {
		case err != nil:
			return badRequest("%v", err)
		case at.Version > 0:
			return badRequest("%s is no time; write one", at)
		case at.Seq > 0 && s.served.Load().speed > 0: // it goes on from the time of the line
			if err := s.source.ask(r.Context(), func(p *past) (err error) {
				at.Time, err = s.timeOf(r.Context(), p, at)
				return err
			}); err != nil {
				return err
			}
			at.Seq = 0
		}
		if err := s.Move(r.Context(), at); err != nil {
			return err
		}
		s.notice("serving the past, " + s.When())
	default:
		return s.readOnly(r.Method)
	}
	now := s.served.Load()
	text, err := json.Marshal(momentBody{At: now.moment().Text(), Says: now.String()})
	if err != nil { // of strings
		panic(err)
	}
	writeJSON(w, http.StatusOK, text)
	return nil
}

// MoveServer tells a server at a URL to serve another moment, with its token if that is not empty. It returns what is
// served then, in words.
func MoveServer(ctx context.Context, url, token string, at argument.Moment) (string, error) {
	is := at.Text()
	if at.IsLatest() {
		is = at.String()
	}
	text, err := json.Marshal(momentBody{At: is})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url+pathOfMoment, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", jsonType)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer w.Body.Close()
	var said struct {
		momentBody
		Message string `json:"message"`
	}
	body, err := io.ReadAll(io.LimitReader(w.Body, maxBody))
	if err = errors.Join(err, json.Unmarshal(body, &said)); err != nil || w.StatusCode != http.StatusOK {
		if said.Says = cmp.Or(said.Message, w.Status); err != nil && w.StatusCode == http.StatusOK {
			said.Says = "its answer is not one of kubejournal serve"
		}
		return "", fmt.Errorf("%s: %s", url, said.Says)
	}
	return said.Says, nil
}
