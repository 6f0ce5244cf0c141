package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest/input"
)

// maxResponseHeader limits the header of a response, in bytes.
const maxResponseHeader = 64 << 10

// fetcher reads URLs.
type fetcher struct {
	options RemoteOptions
	client  *http.Client
}

// answer is a server's response.
type answer struct {
	unchanged bool // the content still has the ETag that was sent in the request
	data      []byte
	etag      string
	// retryAfter is how long a server that refused the request asks clients to wait. 0 means the
	// usual interval.
	retryAfter time.Duration
	signed     signedList // the signed list of the content; empty without a Verification
}

func newFetcher(o RemoteOptions) *fetcher {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.Trust) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(o.Trust)
	}
	return &fetcher{options: o, client: &http.Client{Timeout: o.Timeout, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, MaxResponseHeaderBytes: maxResponseHeader, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * o.Every, TLSHandshakeTimeout: 10 * time.Second}}}
}

// fetch reads the manifests of a URL. See fetchFile.
func (f *fetcher) fetch(ctx context.Context, name, etag string) (answer, error) {
	return f.fetchFile(ctx, name, etag, input.MaxSource)
}

// fetchFile reads a URL. It reads nothing if the content still has the given ETag. Its errors
// contain neither the query of the URL, nor the response, nor headers, because all of these may
// contain credentials.
func (f *fetcher) fetchFile(ctx context.Context, name, etag string, limit int64) (answer, error) {
	headers, err := f.headers(ctx)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return answer{}, errors.New("not a valid URL")
	}
	req.Header.Set("User-Agent", "podrun")
	req.Header.Set("Accept", "application/yaml, application/json;q=0.9, text/plain;q=0.8, */*;q=0.5")
	for _, h := range headers {
		req.Header.Add(h.name, h.value)
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	client := *f.client
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error { return redirect(next, via, headers) }
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, withoutURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return answer{unchanged: true}, nil
	case resp.StatusCode == http.StatusNotModified:
		return answer{}, errors.New("the server returned 304 Not Modified although podrun has no copy")
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		after := wait.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter)
		return answer{retryAfter: after}, fmt.Errorf("the server returned %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case resp.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("the server returned %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case resp.ContentLength > limit:
		return answer{}, hostfile.TooLarge(limit)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read the answer: %w", withoutURL(err))
	case int64(len(data)) > limit:
		return answer{}, hostfile.TooLarge(limit)
	}
	out := answer{data: data, etag: resp.Header.Get("ETag")}
	if len(out.etag) > maxETag {
		out.etag = ""
	}
	return out, nil
}

// redirect accepts only https, and sends no header of the header file to another host.
func redirect(next *http.Request, via []*http.Request, headers []header) error {
	switch {
	case len(via) >= 10:
		return errors.New("more than 10 redirects")
	case next.URL.Scheme != "https":
		return errors.New("the server redirects to a URL that is not https")
	}
	// The Referer contains the query of the redirecting URL.
	next.Header.Del("Referer")
	if next.URL.Host != via[0].URL.Host {
		for _, h := range headers {
			next.Header.Del(h.name)
		}
	}
	return nil
}

// withoutURL returns the cause of an error of the HTTP client, without the URL that the error
// repeats.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return errors.New("the server did not answer in time")
		}
		err = e.Err
	}
	switch {
	case os.IsTimeout(err):
		return errors.New("the server did not send its answer in time")
	case errors.Is(err, io.EOF):
		return errors.New("the server closed the connection")
	}
	// The error may quote the response.
	return errors.New(problem.Brief(err.Error()))
}

// headers reads the header file.
func (f *fetcher) headers(ctx context.Context) ([]header, error) {
	if f.options.HeaderFile == "" {
		return nil, nil
	}
	data, err := hostfile.Read(ctx, f.options.HeaderFile, maxHeaderFile)
	if err != nil {
		return nil, fmt.Errorf("--source-header-file: %w", err)
	}
	headers, err := parseHeaders(data)
	if err != nil {
		return nil, fmt.Errorf("--source-header-file %s: %w", f.options.HeaderFile, err)
	}
	return headers, nil
}

// hostOf returns the host and port of a URL that CheckRemote accepts.
func hostOf(name string) string {
	u, err := url.Parse(name)
	if err != nil {
		return ""
	}
	return u.Host
}
