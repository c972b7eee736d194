package canned

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// loadEnv tells a process that it is to be the server, and of what.
const loadEnv = "KUBEJOURNAL_BENCH_LOAD"

// Server is one that runs in a process of its own.
type Server struct {
	URL string

	cmd *exec.Cmd
	in  io.Closer
}

// Start starts the present program again, as the server of a load. Its main
// function must call Serve first thing. The server ends with Close, or with this
// process.
func Start(load Load) (*Server, error) {
	text, err := json.Marshal(load)
	if err != nil {
		return nil, fmt.Errorf("encode load: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	s := &Server{cmd: exec.Command(self)}
	s.cmd.Env = append(os.Environ(), loadEnv+"="+string(text))
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start canned server: %w", err)
	}
	s.in = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start canned server: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start canned server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start canned server: it said nothing: %w", err), s.Close())
	}
	s.URL = strings.TrimSpace(line)
	return s, nil
}

// Close ends the server and waits for it.
func (s *Server) Close() error {
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("end canned server: %w", err)
	}
	return nil
}

// Serve is the server, if that is what this process was started for: it returns
// true when it has been. It prints its URL and serves until stdin ends.
func Serve() (bool, error) {
	text := os.Getenv(loadEnv)
	if text == "" {
		return false, nil
	}
	var load Load
	if err := json.Unmarshal([]byte(text), &load); err != nil {
		return true, fmt.Errorf("parse %s: %w", loadEnv, err)
	}
	handler, err := newHandler(load)
	if err != nil {
		return true, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return true, fmt.Errorf("serve load: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Println("http://" + l.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, server.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return true, err
}

// handler answers requests. Where it sends with a rate it writes stamps into its
// events, for one watch at a time.
type handler struct {
	http.ServeMux
	load   Load
	stream []byte
	ends   []int // of the events in stream
}

func newHandler(load Load) (*handler, error) {
	h := &handler{load: load}
	var err error
	if h.stream, h.ends, err = load.stream(); err != nil {
		return nil, err
	}
	kinds := Kinds()
	sent := kinds[slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == load.Kind })]
	var resources []string
	for _, k := range kinds {
		r := fmt.Sprintf(`{"name":%q,"singularName":"","namespaced":true,"kind":%q,"verbs":["get","list","watch"]}`,
			k.Resource.Resource, k.Kind)
		if !slices.Contains(resources, r) {
			resources = append(resources, r)
		}
	}
	for path, answer := range map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[` + strings.Join(resources, ",") + `]}`,
		"/api/v1/namespaces/kube-system": `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system",` +
			`"uid":"0a6b0b5e-58f3-4a8e-a6c4-8ab0c6f3a001","resourceVersion":"4"}}`,
	} {
		h.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, answer) })
	}
	h.HandleFunc("/api/v1/"+sent.Resource.Resource, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			answerJSON(w,
				fmt.Sprintf(`{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[]}`,
					sent.Kind, listVersion))
			return
		}
		h.watch(w, r, sent)
	})
	return h, nil
}

func answerJSON(w http.ResponseWriter, answer string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answer) // a client that has gone needs no answer
}

// watch sends the events, after the end of an empty list where one is asked for,
// and ends the response after the last of them, but not where it sends with a
// rate: a real watch stays open too.
func (h *handler) watch(w http.ResponseWriter, r *http.Request, kind Kind) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"%d",`+
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n",
			kind.Kind, firstVersion-1)
	}
	if h.load.Rate == 0 {
		w.Write(h.stream)
		return
	}
	if err := h.pace(r.Context(), w); err == nil {
		<-r.Context().Done()
	}
}

// pace sends each event by itself, when it is due.
func (h *handler) pace(ctx context.Context, w http.ResponseWriter) error {
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return err
	}
	began, start := time.Now(), 0
	due := time.NewTimer(0)
	defer due.Stop()
	for i, end := range h.ends {
		due.Reset(time.Until(began.Add(time.Duration(float64(i) / h.load.Rate * float64(time.Second)))))
		select {
		case <-due.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		frame := h.stream[start:end]
		start = end
		stamp(frame)
		if _, err := w.Write(frame); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}
