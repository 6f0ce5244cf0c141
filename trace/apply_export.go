package trace

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/podrun/podrun/problem"
)

// Send sends a trace by OTLP over HTTP, as JSON, within e.Timeout, and follows no redirect.
// The error has no credentials of e's.
func (e Export) Send(ctx context.Context, t Trace) error {
	body, err := t.OTLP(e, randomID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT is not a URL")
	}
	for name, value := range e.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/json")
	// A redirect would take the headers, which may be credentials, to another host.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = errors.New(problem.Brief(failed.Err.Error())) // without the URL, and what it quotes of a response bounded
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// What is left unread costs the connection, which ends in any case.
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the endpoint answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return nil
}

func randomID(n int) string {
	raw := make([]byte, n)
	rand.Read(raw) // never fails (crypto/rand, Go 1.24)
	return hex.EncodeToString(raw)
}
