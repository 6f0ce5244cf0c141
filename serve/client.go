package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/serve/source"
)

// SourceState is the state of a manifest source of a supervisor.
type SourceState = nodeapi.Source

// maxAnswer limits the size of a response from a supervisor's API, in bytes.
const maxAnswer = 64 << 20

// askAPI requests a path from the API of a root directory's supervisor, over its default socket.
// The caller must close the body.
func askAPI(ctx context.Context, layout identity.Layout, path string) (io.ReadCloser, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialAPI(ctx, layout)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podrun"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	failed := &problem.Error{Kind: problem.Failed, Object: "podrun serve", Err: err}
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		return resp.Body, nil
	case err == nil:
		// All cases below return an error.
		_ = resp.Body.Close()
		failed.Err = fmt.Errorf("its API returned %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case nodeapi.IsAbsent(err):
		failed.Err = errors.New("no API server listens on " + layout.APISocket())
		failed.Hint = "start it: 'podrun serve' or 'podrun service install --now'"
	case errors.Is(err, os.ErrPermission):
		failed.Hint = "use sudo"
	}
	return nil, failed
}

// dialAPI connects to the API's socket. If that fails, it tries the socket of a supervisor with a
// socket group, and then the path at which earlier releases listen. If all fail, it returns the
// first error.
func dialAPI(ctx context.Context, layout identity.Layout) (net.Conn, error) {
	c, err := nodeapi.DialUnix(ctx, layout.APISocket())
	if err == nil {
		return c, nil
	}
	for _, path := range []string{layout.GroupSocket(), layout.Serve().APILink()} {
		if c, other := nodeapi.DialUnix(ctx, path); other == nil {
			return c, nil
		}
	}
	return nil, err
}

// ReadSources requests the state of the manifest sources from the supervisor of a root
// directory. The error is of kind Failed.
func ReadSources(ctx context.Context, layout identity.Layout) ([]SourceState, error) {
	body, err := askAPI(ctx, layout, "/sources")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var out []SourceState
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&out); err != nil {
		return nil, &problem.Error{Kind: problem.Failed, Object: "podrun serve",
			Err: fmt.Errorf("its API returned an invalid list of sources: %w", err)}
	}
	return out, nil
}

// ReadsFile returns a function that reports whether the running supervisor of a root directory reads a manifest file or
// URL. It does not read the files of a directory that was removed from its sources, and keeps the pods of these files. If
// the supervisor does not answer, or the path is that of a pod of an API server, the function returns true.
func ReadsFile(ctx context.Context, layout identity.Layout) func(path string) bool {
	sources := sync.OnceValues(func() ([]SourceState, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return ReadSources(ctx, layout)
	})
	return func(path string) bool {
		if source.IsAPIServerPath(path) {
			return true
		}
		list, err := sources()
		return err != nil || readsFile(list, path)
	}
}

// readsFile reports whether a path is one of the sources, or a file in one of them.
func readsFile(list []SourceState, path string) bool {
	shown := source.Shown(path)
	return slices.ContainsFunc(list, func(s SourceState) bool {
		return s.State != nodeapi.RemovedSource && (s.Name == shown || s.Name == filepath.Dir(shown))
	})
}

// maxEventLine limits the size of an event from a supervisor's API, in bytes. eventsAhead is the
// number of events that WatchEvents buffers for a slow reader. It drops further events, which
// remain in the journals.
const (
	maxEventLine = 1 << 20
	eventsAhead  = 1024
)

// WatchEvents returns events of a supervisor's pods when they happen. The channel is closed
// when ctx ends or the supervisor exits. It returns an error if no supervisor runs.
func WatchEvents(ctx context.Context, layout identity.Layout) (<-chan event.Event, error) {
	body, err := askAPI(ctx, layout, "/events?watch=only")
	if err != nil {
		return nil, err
	}
	out := make(chan event.Event, eventsAhead)
	go func() {
		defer close(out)
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxEventLine)
		for lines.Scan() {
			var e event.Event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue
			}
			select {
			case out <- e:
			default:
			}
		}
	}()
	return out, nil
}
