package nodeapi

import (
	"net/http"
	"strings"
)

// Access is a request of a client that has identified itself with a certificate.
type Access struct {
	User   string   // the certificate's common name
	Groups []string // the certificate's organizations
	Verb   string   // get or create
	// the subresource of the node that the request accesses, as in the kubelet: stats, metrics or proxy
	Subresource string
}

// authorized reports whether the backend permits a request of a client with a certificate. If the
// backend refuses, authorized writes the response. Clients of a unix socket need no permission.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request) bool {
	if s.backend.Authorize == nil || r.TLS == nil {
		return true
	}
	if len(r.TLS.PeerCertificates) == 0 {
		fail(w, http.StatusUnauthorized, "a client certificate is required")
		return false
	}
	subject := r.TLS.PeerCertificates[0].Subject
	a := Access{User: subject.CommonName, Groups: subject.Organization, Verb: verbOf(r.Method), Subresource: subresourceOf(r.URL.Path)}
	if err := s.backend.Authorize(r.Context(), a); err != nil {
		fail(w, http.StatusForbidden, err.Error())
		return false
	}
	return true
}

// containersAllowed returns nil if a client may access containers, or the reason why it may not.
func (s *Server) containersAllowed(r *http.Request) error {
	if s.backend.Authorize != nil && r.TLS != nil {
		return nil // authorized has already permitted the request
	}
	return connOf(r).outside
}

// verbOf returns the API's verb for an HTTP method, as the kubelet does
// (pkg/kubelet/server/auth.go).
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	}
	return strings.ToLower(method)
}

// subresourceOf returns the subresource of a path, as in the kubelet (pkg/kubelet/server/auth.go).
func subresourceOf(path string) string {
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); first {
	case "stats", "metrics":
		return first
	}
	return "proxy"
}

// podOf returns the local name of the pod in a request's path.
func (s *Server) podOf(r *http.Request) string {
	name := r.PathValue("pod")
	if s.backend.LocalName == nil || r.TLS == nil {
		return name
	}
	return s.backend.LocalName(r.PathValue("namespace"), name)
}
