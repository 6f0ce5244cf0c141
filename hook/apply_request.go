package hook

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// userAgent is what the kubelet of v1.36 calls itself in hooks; a server may
// tell its callers apart by it.
const userAgent = "kube-lifecycle/1.36"

// request builds the hook's request, by the rules of the kubelet's probes
// (pkg/probe/http/request.go): a header that the pod sets replaces a default, an
// empty Accept sends none, and Host names the virtual host.
func (h HTTP) request(podIP string) (*http.Request, error) {
	host := h.Host
	if host == "" {
		host = podIP
	}
	if host == "" {
		return nil, fmt.Errorf("the pod has no IP of its own on the host's network: set httpGet.host")
	}
	target, err := url.Parse(h.Path)
	if err != nil {
		// Sent as it is: a server may know what it means.
		target = &url.URL{Path: h.Path}
	}
	target.Scheme, target.Host = h.Scheme, net.JoinHostPort(host, strconv.Itoa(h.Port))
	req, err := http.NewRequest(http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range h.Headers {
		req.Header.Add(header.Name, header.Value)
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header.Set("User-Agent", userAgent)
	}
	switch accept, set := req.Header["Accept"]; {
	case !set:
		req.Header.Set("Accept", "*/*")
	case accept[0] == "":
		req.Header.Del("Accept")
	}
	req.Host = req.Header.Get("Host")
	return req, nil
}
