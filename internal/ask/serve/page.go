package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/cluster"
	"kubejournal/internal/ask/command"
	"kubejournal/internal/ask/report"
	"kubejournal/internal/host/terminal"
)

// defaultWindow is how much the page has that is asked for without times.
const defaultWindow = time.Hour

// page answers with the page about an incident, of the objects and the time that a browser asks for. The journals are
// read for it, as for the command.
func (s *Server) page(w http.ResponseWriter, r *http.Request) error {
	select { // a page takes some memory
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	page, err := s.gather(r)
	if err != nil {
		status := http.StatusInternalServerError
		if _, usage := errors.AsType[command.UsageError](err); usage || errors.Is(err, cluster.ErrUnknown) {
			status = http.StatusBadRequest
		} else if f, is := errors.AsType[*failure](err); is {
			status = int(f.status.Code)
		} else {
			s.notice(err.Error())
		}
		text := "kubejournal: " + terminal.Line(err.Error()) + "\n"
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // a client that has gone
		return nil
	}
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", page.Policy()+"; frame-ancestors 'none'")
	_, _ = w.Write(text.Bytes()) // a client that has gone
	return nil
}

func (s *Server) gather(r *http.Request) (page *report.Page, err error) {
	query := r.URL.Query()
	form := &report.Form{
		Objects: query.Get("objects"), Namespace: query.Get("namespace"), Since: query.Get("since"),
		Until: query.Get("until"), Related: truth(query, "related"), Moment: pathOfMoment, When: s.When(),
	}
	q := command.Report{Related: form.Related, Report: report.Report{Form: form}}
	if q.Until, err = command.ParseTime("until", form.Until); err == nil {
		q.Since, err = command.ParseTime("since", form.Since)
	}
	if err != nil {
		return nil, badRequest("%v", err)
	}
	if q.Until.IsZero() && !s.moment().IsLatest() {
		q.Until = s.moment()
	}
	if q.Since.IsZero() {
		if q.Since, err = s.hourBefore(r.Context(), q.Until); err != nil {
			return nil, err
		}
	}
	form.Since, form.Until = q.Since.Text(), cmp.Or(form.Until, textOf(q.Until))
	var said []string
	o := &answer.Output{Writer: io.Discard, Notes: io.Discard, Said: func(n answer.Note) {
		said = append(said, n.Text)
	}}
	request := command.Request{Journals: s.Paths, Flags: s.Flags, Objects: strings.Fields(form.Objects)}
	if form.Namespace != "" {
		request.Namespaces = strings.Fields(form.Namespace)
	}
	q.Take = func(p *report.Page) error { page = p; return nil }
	if err := q.Prepare(&request); err != nil {
		return nil, err
	}
	opened, err := request.Open(r.Context(), o)
	defer opened.Close() //nolint:staticcheck // what is returned with an error is closed too
	if err == nil {
		err = request.Answer(r.Context(), &q, opened, o)
	}
	switch {
	case page != nil:
		return page, nil // what is in doubt is on it
	case err != nil && len(said) > 0:
		return nil, fmt.Errorf("%w: %s", err, strings.Join(said, "; "))
	case err == nil:
		err = errors.New("there is no page")
	}
	return nil, err
}

// hourBefore returns where a page begins that ends at a moment; of none, at the journal's last line.
func (s *Server) hourBefore(ctx context.Context, until argument.Moment) (since argument.Moment, err error) {
	end := until.Time
	err = s.source.ask(ctx, func(p *past) (err error) {
		if until.Seq > 0 {
			end, err = s.timeOf(ctx, p, until)
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for l, err := range p.j.Last(ctx, &argument.Filter{}, 1) {
			if err != nil {
				return err
			}
			if end.IsZero() || end.After(l.Time) {
				end = l.Time
			}
		}
		return nil
	})
	return argument.Moment{Time: end.Add(-defaultWindow)}, err
}

func textOf(m argument.Moment) string {
	if m.IsZero() {
		return ""
	}
	return m.Text()
}
