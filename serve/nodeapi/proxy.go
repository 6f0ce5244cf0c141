package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// maxCommand limits the number of words of a command.
const maxCommand = 1024

// StreamRequest is a request to run a command in a container, to attach to it, or to
// forward ports of a pod, with the kubelet's parameters.
type StreamRequest struct {
	Namespace, Pod             string
	Container                  string   // "" for a request to forward ports
	Command                    []string // for a request to run a command
	Stdin, Stdout, Stderr, TTY bool
}

// inside forwards a request to the runtime's streaming server, at the URL that ask returns. The client
// and that server negotiate the protocol, SPDY or websockets. It permits clients of the unix socket that
// are not in a container, because they are root or in the socket's group. It permits clients of a TCP
// listener only if Backend.Authorize does, because their certificates may have been issued only for
// reading metrics.
func (s *endpoint) inside(ask func(context.Context, StreamRequest) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refused := s.containersAllowed(r)
		switch {
		case refused != nil:
			fail(w, http.StatusForbidden, "exec, attach and port-forward are not allowed for this client: "+refused.Error())
			return
		case r.Method != http.MethodGet && r.Method != http.MethodPost:
			w.Header().Set("Allow", "GET, POST")
			fail(w, http.StatusMethodNotAllowed, "use GET or POST")
			return
		case r.Header.Get("Upgrade") == "":
			fail(w, http.StatusBadRequest, "the request must upgrade the connection (Upgrade: SPDY/3.1 or websocket)")
			return
		case r.ContentLength != 0:
			w.Header().Set("Connection", "close")
			fail(w, http.StatusRequestEntityTooLarge, "requests must not have a body")
			return
		}
		s.slotted(s.streams, true, w, r, func(w http.ResponseWriter, r *http.Request) {
			request, err := streamRequest(r)
			request.Pod = s.podOf(r)
			if err != nil {
				fail(w, http.StatusBadRequest, err.Error())
				return
			}
			address, err := ask(r.Context(), request)
			if err != nil {
				failed(w, err)
				return
			}
			to, err := url.Parse(address)
			if err != nil {
				fail(w, http.StatusBadGateway, "the runtime returned an invalid URL")
				return
			}
			proxyTo(to).ServeHTTP(w, r)
		})
	}
}

// streamRequest reads the parameters of a request for a stream.
func streamRequest(r *http.Request) (StreamRequest, error) {
	query := r.URL.Query()
	out := StreamRequest{
		Namespace: r.PathValue("namespace"),
		Pod:       r.PathValue("pod"),
		Container: r.PathValue("container"),
		Command:   query["command"],
	}
	var errs []error
	for name, to := range map[string]*bool{"input": &out.Stdin, "output": &out.Stdout, "error": &out.Stderr, "tty": &out.TTY} {
		var err error
		if *to, err = flag(query, name); err != nil {
			errs = append(errs, err)
		}
	}
	if len(out.Command) > maxCommand {
		errs = append(errs, fmt.Errorf("the command has more than %d arguments", maxCommand))
	}
	if out.Container != "" && !out.Stdin && !out.Stdout && !out.Stderr {
		errs = append(errs, errors.New("one of input, output and error must be set"))
	}
	if out.TTY && out.Stderr {
		errs = append(errs, errors.New("stderr must not be set together with tty"))
	}
	return out, errors.Join(errs...)
}

// proxyTo forwards a connection to a URL of the runtime. On a loopback address, it does not verify
// the certificate, because podrun received the URL over the runtime's socket, and the runtime's
// certificate is self-signed.
func proxyTo(to *url.URL) *httputil.ReverseProxy {
	ip := net.ParseIP(to.Hostname())
	local := to.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = to, to.Host },
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: local}},
		ErrorLog:  quiet(),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			fail(w, http.StatusBadGateway, "connect to the runtime's streams: "+err.Error())
		},
	}
}
