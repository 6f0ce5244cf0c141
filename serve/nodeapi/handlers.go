package nodeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/podrun/podrun/internal/problem"
)

const (
	textType = "text/plain; charset=utf-8"
	jsonType = "application/json"
)

// handler routes the requests.
func (s *endpoint) handler() http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/healthz": s.healthz, "/readyz": s.readyz, "/pods": s.pods, "/pods/{$}": s.pods, "/sources": s.sources,
		"/metrics": s.metrics, "/metrics/resource": s.resource, "/stats/summary": s.summary, "/stats/summary/{$}": s.summary,
	} {
		mux.HandleFunc(path, s.bounded(s.answers, false, h))
	}
	mux.HandleFunc("/events", s.bounded(s.streams, true, s.events))
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", s.bounded(s.streams, true, s.logs))
	if s.backend.ReadOnly {
		for _, path := range []string{"/exec/", "/attach/", "/portForward/"} {
			mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
				fail(w, http.StatusForbidden, "exec, attach and port-forward are disabled by the setting readOnlyAPI")
			})
		}
		return mux
	}
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", s.inside(s.backend.Exec))
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", s.inside(s.backend.Attach))
	mux.HandleFunc("/portForward/{namespace}/{pod}", s.inside(s.backend.PortForward))
	// API servers add the UID of a mirror pod.
	mux.HandleFunc("/exec/{namespace}/{pod}/{uid}/{container}", s.inside(s.backend.Exec))
	mux.HandleFunc("/attach/{namespace}/{pod}/{uid}/{container}", s.inside(s.backend.Attach))
	mux.HandleFunc("/portForward/{namespace}/{pod}/{uid}", s.inside(s.backend.PortForward))
	return mux
}

// answer writes a complete response, which the client must read within the time limit.
func (s *Server) answer(w http.ResponseWriter, code int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// The ResponseWriters that tests use do not support write deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.writeTimeout))
	w.WriteHeader(code)
	// An error means that the client has disconnected.
	_, _ = w.Write(body)
}

// fail responds with the given status code and message.
func fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.Error(w, message, code)
}

// failed responds with the error of the backend.
func failed(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if e, ok := errors.AsType[*problem.Error](err); ok {
		switch e.Kind {
		case problem.Failed:
			code = http.StatusNotFound
		case problem.Usage:
			code = http.StatusBadRequest
		case problem.Runtime:
			code = http.StatusServiceUnavailable
		}
	}
	fail(w, code, err.Error())
}

func (s *Server) answerJSON(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		failed(w, err)
		return
	}
	s.answer(w, http.StatusOK, jsonType, append(body, '\n'))
}

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	s.health(w, r, "healthz", live(s.backend.Health()))
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	s.health(w, r, "readyz", s.backend.Health())
}

func (s *Server) health(w http.ResponseWriter, r *http.Request, name string, checks []Check) {
	text, healthy := healthText(name, checks, r.URL.Query().Has("verbose"))
	code := http.StatusOK
	if !healthy {
		code = http.StatusServiceUnavailable
	}
	s.answer(w, code, textType, []byte(text))
}

func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	list, err := s.backend.Pods(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	s.answerJSON(w, list)
}

func (s *Server) sources(w http.ResponseWriter, _ *http.Request) {
	list := s.backend.Sources()
	if list == nil {
		list = []Source{}
	}
	s.answerJSON(w, list)
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	out, err := s.backend.Stats(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	s.answerJSON(w, out)
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	s.gather(w, r, s.backend.Metrics.registry)
}

// resource responds with the resource metrics. If it cannot read any statistics, it responds
// with resource_scrape_error.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	summary, err := s.backend.Stats(r.Context())
	if err != nil {
		summary = nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(resourceCollector{summary}); err != nil {
		failed(w, err)
		return
	}
	s.gather(w, r, registry)
}

// gather responds with metrics in the format that the client accepts.
func (s *Server) gather(w http.ResponseWriter, r *http.Request, g prometheus.Gatherer) {
	families, err := g.Gather()
	if err != nil && len(families) == 0 {
		failed(w, err)
		return
	}
	var body bytes.Buffer
	format := expfmt.Negotiate(r.Header)
	encoder := expfmt.NewEncoder(&body, format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			failed(w, err)
			return
		}
	}
	if closer, ok := encoder.(expfmt.Closer); ok {
		if err := closer.Close(); err != nil {
			failed(w, err)
			return
		}
	}
	s.answer(w, http.StatusOK, string(format), body.Bytes())
}
