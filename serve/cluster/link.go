package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// link is the state of the connection to the API server. It reports a lost connection once.
type link struct {
	server string
	warn   func(problem.List)

	mu   sync.Mutex
	lost time.Time // when the connection was lost; zero while it works
}

// note records the result of a request that is repeated regularly.
func (l *link) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	was := l.lost
	switch {
	case err == nil:
		l.lost = time.Time{}
	case was.IsZero():
		l.lost = time.Now()
	}
	l.mu.Unlock()
	p := problem.Problem{Object: "API server " + l.server, Warning: true}
	switch {
	case err != nil && was.IsZero():
		p.Message = event.Cut(err.Error())
		p.Hint = "pods keep running, and podrun retries; nothing is removed until the API server answers"
		if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
			p.Hint = "check the kubeconfig: its credentials must belong to the user system:node:NAME in the group system:nodes; pods keep running, and podrun retries"
		}
	case err == nil && !was.IsZero():
		p.Message = fmt.Sprintf("answers again after %s", time.Since(was).Round(time.Second))
	default:
		return
	}
	l.warn(problem.List{p})
}
