package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

const urlTimeout = 30 * time.Second

var errPlainHTTP = errors.New("http is not supported: a manifest could be changed in transit")

// url fetches a manifest over https, or from this host also over http.
func (r *reader) url(ctx context.Context, name string) (Source, *problem.Problem) {
	u, err := url.Parse(name)
	if err != nil {
		return Source{}, &unreadable(name, "not a valid URL", "write https://host/path")[0]
	}
	if err := allowed(u); err != nil {
		return Source{}, &unreadable(name, err.Error(), "use https")[0]
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Source{}, &unreadable(name, "not a valid URL", "write https://host/path")[0]
	}
	req.Header.Set("Accept", "application/yaml, application/json;q=0.9, text/plain;q=0.8, */*;q=0.5")
	req.Header.Set("User-Agent", "podrun")
	resp, err := checked(r.HTTPClient).Do(req)
	if err != nil {
		return Source{}, urlProblem(name, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return Source{}, &unreadable(name, fmt.Sprintf("the server returned %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)), statusHint(resp.StatusCode))[0]
	}
	return r.readSource(ctx, name, func() (io.ReadCloser, error) { return resp.Body, nil })
}

// checked returns a copy of the client. It has a timeout, and checks every redirect.
func checked(client *http.Client) *http.Client {
	c := http.Client{Timeout: urlTimeout}
	if client != nil {
		c = *client
	}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("more than 10 redirects")
		}
		if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
			return fmt.Errorf("a redirect to %s: %w", req.URL.Scheme, errPlainHTTP)
		}
		// The Referer contains the redirecting URL, whose query may contain a token.
		req.Header.Del("Referer")
		return allowed(req.URL)
	}
	return &c
}

// allowed accepts https URLs of any host, and http URLs of this host.
func allowed(u *url.URL) error {
	switch {
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("a URL of scheme %q is not supported", u.Scheme)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return errPlainHTTP
}

// urlProblem explains why a request received no response. It omits the URL in the client's error,
// because the URL may contain credentials.
func urlProblem(name string, err error) *problem.Problem {
	var urlErr *url.Error
	hint := ""
	if errors.As(err, &urlErr) {
		if urlErr.Timeout() {
			hint = "the server did not answer in time"
		}
		err = urlErr.Err
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		hint = "check the host's name and this host's resolver"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "no server listens on this port: check the URL, or start the server"
	case errors.Is(err, errPlainHTTP):
		hint = "use the https URL of the manifest itself"
	}
	return &unreadable(name, problem.Brief(err.Error()), hint)[0]
}

func statusHint(code int) string {
	switch {
	case code == http.StatusNotFound || code == http.StatusGone:
		return "check the URL"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "download it with credentials and pass it on standard input (-)"
	case code >= 500:
		return "try again later"
	}
	return ""
}
