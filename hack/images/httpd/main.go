// Httpd is the HTTP server of the test images. It writes a line to stdout for each request, and
// exits immediately with code 0 on SIGTERM.
//
//	/             a greeting with the hostname
//	/healthz      200
//	/fail         500
//	/status?code=N  the status N
//	/redirect     302 to /, or to ?to=URL
//	/hook         counts its requests and returns the count; ?peek=1 only returns it
//	/headers      the request's headers, unchanged
//
// PORT is the port to listen on (8080).
package main

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
)

func main() {
	go func() {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
		os.Exit(0)
	}()
	addr := ":" + cmp.Or(os.Getenv("PORT"), "8080")
	if err := serve(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve writes its line after the socket accepts connections, because tests connect as soon as the
// log contains the line.
func serve(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening on", addr)
	return http.Serve(listener, logged(routes()))
}

// routes returns the handlers of the server.
func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", greet)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this path always fails", http.StatusInternalServerError)
	})
	mux.HandleFunc("/status", answerStatus)
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, cmp.Or(r.FormValue("to"), "/"), http.StatusFound)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Host:", r.Host)
		// Write fails if the client has disconnected.
		_ = r.Header.Write(w)
	})
	mux.HandleFunc("/hook", countHooks())
	return mux
}

func greet(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "hello from", name)
}

func answerStatus(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil || code < 100 || code > 999 {
		http.Error(w, "code: want a number from 100 to 999", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
}

func countHooks() http.HandlerFunc {
	var calls atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("peek") == "" {
			calls.Add(1)
		}
		fmt.Fprintln(w, calls.Load())
	}
}

// logged writes a line for each request before the request is handled.
func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.RequestURI(), "host="+r.Host, "agent="+r.UserAgent())
		next.ServeHTTP(w, r)
	})
}
