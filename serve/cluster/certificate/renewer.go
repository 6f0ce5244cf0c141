// Package certificate renews the client certificate of a kubelet's kubeconfig, as the kubelet does with
// rotateCertificates (KEP-266). It does not use k8s.io/client-go/util/certificate: that package imports
// k8s.io/client-go/kubernetes, which takes 15 MB in the binary and in memory. The files are the same, so a
// kubelet can replace podrun-node, and the other way round.
package certificate

import (
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// Renewer renews the client certificate of a node. Its methods are not safe for concurrent use.
type Renewer struct {
	Kubeconfig string // path
	Node       string // name of the node
	Requests   Requests
	Warn       func(problem.List)

	retry time.Duration        // the delay after the next failure
	told  map[string]time.Time // when a warning was last printed, by subject
}

const (
	// The delays after a failed renewal. The kubelet starts with 2 s, and then retries every 32 s; each time,
	// it creates another CertificateSigningRequest.
	firstRetry = 2 * time.Second
	lastRetry  = 10 * time.Minute
	// If a CA is about to expire, its certificates are already due for renewal when it issues them.
	leastInterval = time.Minute
	// Run reads the kubeconfig again at this interval, because another program may renew the certificate, and
	// because timers do not run while the host is suspended.
	readEvery   = 10 * time.Minute
	repeatEvery = 24 * time.Hour // of a warning
)

// Run renews the certificate when it is due, until ctx ends.
func (r *Renewer) Run(ctx context.Context) {
	r.retry = firstRetry
	r.told = map[string]time.Time{}
	for wait.Sleep(ctx, r.step(ctx)) == nil {
	}
}

// step renews the certificate if it is due, and returns when to call step again.
func (r *Renewer) step(ctx context.Context) time.Duration {
	c, err := readCredentials(ctx, r.Kubeconfig)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		r.warn("read", fmt.Sprintf("podrun-node cannot read the client certificate, and does not renew it: %v", err), "correct the file; podrun-node reads it again after "+readEvery.String())
		return readEvery
	}
	now := time.Now()
	next := Next(c, r.Node, now)
	if next.Warning != "" {
		r.warn(next.Warning, next.Warning, next.Hint)
	}
	if next.Renew.IsZero() {
		return readEvery
	}
	if pause := next.Renew.Sub(now); pause > 0 {
		return min(pause, readEvery)
	}
	if err := r.renew(ctx, c.CertFile); err != nil {
		return r.failed(ctx, c, err)
	}
	r.retry = firstRetry
	if _, ok := r.told["renew"]; ok {
		delete(r.told, "renew")
		r.Warn(problem.List{{Object: "--kubeconfig " + r.Kubeconfig, Warning: true, Message: "podrun-node has renewed the client certificate"}})
	}
	return leastInterval
}

// renew requests a certificate for a new key, and makes link refer to both.
func (r *Renewer) renew(ctx context.Context, link string) error {
	issued, err := request(ctx, r.Requests, r.Node)
	if err != nil {
		return err
	}
	return issued.store(link, time.Now())
}

// failed reports a failed renewal, and returns the delay before the next one.
func (r *Renewer) failed(ctx context.Context, c Credentials, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	r.warn("renew", fmt.Sprintf("podrun-node cannot renew the client certificate, which expires at %s: %v", date(c.Leaf.NotAfter), err),
		"podrun-node retries; check that the cluster approves and signs the requests of nodes ('kubectl get csr')")
	pause := r.retry
	r.retry = wait.Next(r.retry, firstRetry, lastRetry)
	return pause
}

// warn prints a warning unless it has printed one about the subject in the last day.
func (r *Renewer) warn(subject, message, hint string) {
	if at, ok := r.told[subject]; ok && time.Since(at) < repeatEvery {
		return
	}
	r.told[subject] = time.Now()
	r.Warn(problem.List{{Object: "--kubeconfig " + r.Kubeconfig, Warning: true, Message: event.Cut(message), Hint: hint}})
}
