package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// registry is a proxy for the registry of the test runtime. It counts requests, and limits the
// rate of each blob.
type registry struct {
	behind   string // host:port of the real registry
	address  string
	rate     int64 // maximum rate for each blob, in bytes per second
	requests atomic.Int64
	server   *http.Server
}

func newRegistry(behind string, rate int64) (*registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &registry{behind: behind, address: l.Addr().String(), rate: rate}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind})
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.Method == http.MethodGet && strings.Contains(answer.Request.URL.Path, "/blobs/") {
			answer.Body = &paced{ReadCloser: answer.Body, rate: rate, begun: time.Now()}
		}
		return nil
	}
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.requests.Add(1)
		proxy.ServeHTTP(w, request)
	})}
	go r.server.Serve(l)
	return r, nil
}

// paced is a response body with a limited rate.
type paced struct {
	io.ReadCloser
	rate, sent int64
	begun      time.Time
}

func (p *paced) Read(b []byte) (int, error) {
	time.Sleep(time.Until(p.begun.Add(time.Duration(float64(p.sent) / float64(p.rate) * float64(time.Second)))))
	n, err := p.ReadCloser.Read(b[:min(len(b), 1<<15)])
	p.sent += int64(n)
	return n, err
}

// push pushes images of random bytes, each with one layer. It returns the names of the images
// in this registry.
func (r *registry) push(n int, size int64) ([]string, error) {
	var names []string
	for i := range n {
		image, err := random.Image(size, 1)
		if err != nil {
			return nil, err
		}
		tag, err := name.NewTag(fmt.Sprintf("%s/bench/image-%d:1", r.behind, i), name.Insecure)
		if err != nil {
			return nil, err
		}
		if err := remote.Write(tag, image); err != nil {
			return nil, err
		}
		names = append(names, fmt.Sprintf("%s/bench/image-%d:1", r.address, i))
	}
	return names, nil
}
