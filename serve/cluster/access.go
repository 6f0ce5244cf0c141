package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podrun/podrun/serve/nodeapi"
)

// access decides about clients of the HTTPS API, as a kubelet with the authorization mode Webhook does: it
// asks the API server, because every user and node of the cluster has a certificate of the same authority.
type access struct {
	client kubernetes.Interface
	node   string

	mu      sync.Mutex
	answers map[string]answer
}

// answer is a decision of the API server, which podrun uses until the given time.
type answer struct {
	allowed bool
	until   time.Time
}

// The kubelet's cacheAuthorizedTTL and cacheUnauthorizedTTL, the maximum number of cached answers,
// and the time limit of a request.
const (
	allowedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	maxAnswers = 1000
	askWithin  = 10 * time.Second
)

// Authorize implements serve.Cluster.
func (c *Cluster) Authorize(ctx context.Context, a nodeapi.Access) error {
	return c.access.check(ctx, a)
}

// check returns why a client may not make a request; nil if it may.
func (a *access) check(ctx context.Context, r nodeapi.Access) error {
	key := fmt.Sprintf("%q %q %s %s", r.User, r.Groups, r.Verb, r.Subresource)
	now := time.Now()
	a.mu.Lock()
	known, ok := a.answers[key]
	a.mu.Unlock()
	if !ok || now.After(known.until) {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: r.User, Groups: append([]string{"system:authenticated"}, r.Groups...),
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Version: "v1", Resource: "nodes", Subresource: r.Subresource, Name: a.node}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("the API server did not authorize user %q: %w", r.User, err)
		}
		known = answer{review.Status.Allowed, now.Add(deniedFor)}
		if known.allowed {
			known.until = now.Add(allowedFor)
		}
		a.keep(key, known)
	}
	if !known.allowed {
		return fmt.Errorf("user %q may not %s nodes/%s of %s", r.User, r.Verb, r.Subresource, a.node)
	}
	return nil
}

func (a *access) keep(key string, one answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers == nil || len(a.answers) >= maxAnswers {
		a.answers = map[string]answer{}
	}
	a.answers[key] = one
}
