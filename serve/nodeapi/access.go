package nodeapi

import (
	"net/http"
	"strings"
)

// Access is a request of a client that has identified itself with a certificate.
type Access struct {
	User   string   // the common name
	Groups []string // the organizations
	Verb   string   // get or create
	// the subresource of the node that the request accesses, as in the kubelet: stats, metrics or proxy
	Subresource string
}

// authorized reports whether the backend permits a request of a client with a certificate. If it does
// not, authorized writes the response. Clients of a unix socket need no permission.
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

// containersAllowed returns why a client may not access containers; nil if it may.
func (s *Server) containersAllowed(r *http.Request) error {
	if s.backend.Authorize != nil && r.TLS != nil {
		return nil // authorized has permitted the request
	}
	return connOf(r).outside
}

// verbOf returns the API's verb for a method, as the kubelet maps them (pkg/kubelet/server/auth.go).
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

// podOf returns the name on this host of the pod in a path.
func (s *Server) podOf(r *http.Request) string {
	name := r.PathValue("pod")
	if s.backend.LocalName == nil || r.TLS == nil {
		return name
	}
	return s.backend.LocalName(r.PathValue("namespace"), name)
}
