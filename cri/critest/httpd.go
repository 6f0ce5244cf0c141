package critest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// Httpd is a Program: the server of the image httpd that hack/images makes, as
// far as hooks and probes need it. It really listens, on the pod's IPs, so that
// it is for tests in real time: not for synctest.
func Httpd(ctx context.Context, m Machine) int32 {
	port := "8080"
	for _, e := range m.Env {
		if v, ok := strings.CutPrefix(e, "PORT="); ok {
			port = cmp.Or(v, port)
		}
	}
	hosts := []string{"127.0.0.1"}
	if len(m.IPs) > 0 {
		hosts = nil
		for _, ip := range m.IPs {
			hosts = append(hosts, ip.String())
		}
	}
	server := &http.Server{Handler: m.logged(m.routes())}
	defer server.Close()
	failed := make(chan error, len(hosts))
	for _, h := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(h, port))
		if err != nil {
			fmt.Fprintln(m.Stderr, err)
			return 1
		}
		go func() { failed <- server.Serve(l) }()
	}
	fmt.Fprintf(m.Stdout, "listening on :%s\n", port)
	select {
	case <-ctx.Done():
	case <-m.TERM:
	case err := <-failed:
		fmt.Fprintln(m.Stderr, err)
		return 1
	}
	return 0
}

func (m Machine) routes() http.Handler {
	var hooks atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello from", m.Hostname) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "told to fail", http.StatusInternalServerError)
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil || code < 100 || code > 999 {
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, cmp.Or(r.FormValue("to"), "/"), http.StatusFound)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Host:", r.Host)
		_ = r.Header.Write(w) // the client went away: nobody to tell
	})
	mux.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("peek") == "" {
			hooks.Add(1)
		}
		fmt.Fprintln(w, hooks.Load())
	})
	return mux
}

// logged writes a line for each request before it is answered.
func (m Machine) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(m.Stdout, r.Method, r.URL.RequestURI(), "host="+r.Host, "agent="+r.UserAgent())
		next.ServeHTTP(w, r)
	})
}
