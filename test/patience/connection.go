package patience

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// Deadline ends the reads and writes of a connection, with an error, after a number of ticks.
func Deadline(t testing.TB, connection interface{ SetDeadline(time.Time) error }, ticks int) {
	ctx, cancel := Context(context.WithoutCancel(t.Context()), ticks)
	stop := context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) }) // fails if it is closed
	t.Cleanup(func() { stop(); cancel() })
}

// Client returns an HTTP client whose requests fail after OnFake ticks from now on.
func Client(t testing.TB, transport *http.Transport) *http.Client {
	ctx, cancel := Context(context.WithoutCancel(t.Context()), OnFake)
	t.Cleanup(cancel)
	return &http.Client{Transport: limited{transport, ctx}}
}

// limited is a transport whose requests end with ctx.
type limited struct {
	*http.Transport // its CloseIdleConnections is that of the client
	ctx             context.Context
}

// RoundTrip ends the request with its own context or with that of the transport. A body that is read later ends
// with them, too.
func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return l.Transport.RoundTrip(req.WithContext(ctx))
}
