package nodeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// stream writes a response in pieces. It disconnects a client that does not read a piece within the
// time limit.
type stream struct {
	w       http.ResponseWriter
	c       *http.ResponseController
	timeout time.Duration
	kind    string
	begun   bool
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.begin()
	if err := s.c.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := s.w.Write(p)
	if err == nil {
		err = s.c.Flush()
	}
	return n, err
}

// begin sends the response's header, unless begin has already sent it.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", s.kind)
	s.w.Header().Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(http.StatusOK)
	// The first Write reports if the client has disconnected.
	_ = s.c.Flush()
}

func (s *Server) stream(w http.ResponseWriter, kind string) *stream {
	return &stream{w: w, c: http.NewResponseController(w), timeout: s.writeTimeout, kind: kind}
}

// abort closes the connection so that the client detects an incomplete response.
func abort() { panic(http.ErrAbortHandler) }

// events responds with one line of JSON per event. It sends the events in the journals, unless
// watch=only is set. With watch=true or watch=only, it also sends all new events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	namespace, pod := query.Get("namespace"), query.Get("pod")
	only := query.Get("watch") == "only"
	watch, err := flag(query, "watch")
	if err != nil && !only {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var watcher *Watcher
	// The watch must begin before the journals are read, so that no event is missed.
	if watch || only {
		if watcher = s.backend.Feed.Watch(); watcher == nil {
			fail(w, http.StatusTooManyRequests, "too many concurrent watches")
			return
		}
		defer watcher.Stop()
	}
	out := s.stream(w, "application/jsonl")
	listed := map[string]bool{}
	if !only {
		list, err := s.backend.Events(r.Context(), namespace, pod)
		if err != nil {
			failed(w, err)
			return
		}
		if listed, err = writeEvents(out, list); err != nil {
			abort()
		}
	}
	out.begin()
	if watcher == nil {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case e, ok := <-watcher.C:
			if !ok {
				// some events were lost
				abort()
			}
			line, err := json.Marshal(e)
			if err != nil || namespace != "" && e.Namespace != namespace || pod != "" && e.Pod != pod || listed[string(line)] {
				continue
			}
			if _, err := out.Write(append(line, '\n')); err != nil {
				abort()
			}
		}
	}
}

// writeEvents writes events immediately, and returns the most recent lines that it has written.
func writeEvents(out *stream, list []event.Event) (map[string]bool, error) {
	var body bytes.Buffer
	listed := map[string]bool{}
	for i, e := range list {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if len(list)-i <= feedBuffer {
			listed[string(line)] = true
		}
		body.Write(append(line, '\n'))
	}
	if body.Len() == 0 {
		return listed, nil
	}
	_, err := out.Write(body.Bytes())
	return listed, err
}

// logs responds with the log of a container.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	request, err := logRequest(r.URL.Query(), time.Now())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	request.Namespace = r.PathValue("namespace")
	request.Pod = s.podOf(r)
	request.Container = r.PathValue("container")
	out := s.stream(w, textType)
	err = s.backend.Logs(r.Context(), request, out)
	switch {
	case err != nil && !out.begun && r.Context().Err() == nil:
		failed(w, err)
	case err != nil && out.begun:
		abort()
	default:
		out.begin()
	}
}

// logRequest reads the parameters of a request for a log.
func logRequest(q url.Values, now time.Time) (r LogRequest, err error) {
	number := func(name string, lowest int64) *int64 {
		if !q.Has(name) || err != nil {
			return nil
		}
		n, bad := strconv.ParseInt(q.Get(name), 10, 64)
		if bad != nil || n < lowest {
			err = fmt.Errorf("%s: must be a whole number of at least %d", name, lowest)
			return nil
		}
		return &n
	}
	truth := func(name string) bool {
		b, bad := flag(q, name)
		err = errors.Join(err, bad)
		return b
	}
	r = LogRequest{
		Tail:       number("tailLines", 0),
		LimitBytes: number("limitBytes", 1),
		Previous:   truth("previous"),
		Follow:     truth("follow"),
		Timestamps: truth("timestamps"),
	}
	if seconds := number("sinceSeconds", 1); seconds != nil {
		r.Since = now.Add(-time.Duration(min(*seconds, 1<<32)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" && err == nil {
		if r.Since, err = time.Parse(time.RFC3339, text); err != nil {
			err = errors.New("sinceTime: must be a time such as 2006-01-02T15:04:05Z")
		}
	}
	return r, err
}

// flag returns the value of a boolean parameter; or false if the parameter is missing.
func flag(q url.Values, name string) (bool, error) {
	if !q.Has(name) {
		return false, nil
	}
	b, err := strconv.ParseBool(q.Get(name))
	if err != nil {
		return false, fmt.Errorf("%s: must be true or false", name)
	}
	return b, nil
}
