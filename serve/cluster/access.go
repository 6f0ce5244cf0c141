package cluster

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/podrun/podrun/serve/nodeapi"
)

// access decides about clients of the HTTPS API, as a kubelet with the authorization mode Webhook does: it
// asks the API server, because every user and node of the cluster has a certificate of the same authority.
type access struct {
	client Client
	node   string
	// answers contains the API server's decisions: whether a client may make a request.
	answers *cache.LRUExpireCache
}

// The kubelet's cacheAuthorizedTTL and cacheUnauthorizedTTL, the maximum number of cached answers,
// and the time limit of a request.
const (
	allowedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	maxAnswers = 1000
	askWithin  = 10 * time.Second
)

func newAccess(client Client, node string) *access {
	return &access{client: client, node: node, answers: cache.NewLRUExpireCache(maxAnswers)}
}

// Authorize implements serve.Cluster.
func (c *Cluster) Authorize(ctx context.Context, a nodeapi.Access) error {
	return c.access.check(ctx, a)
}

// check returns why a client may not make a request; nil if it may.
func (a *access) check(ctx context.Context, r nodeapi.Access) error {
	key := fmt.Sprintf("%q %q %s %s", r.User, r.Groups, r.Verb, r.Subresource)
	known, ok := a.answers.Get(key)
	if !ok {
		allowed, err := a.ask(ctx, r)
		if err != nil {
			return fmt.Errorf("the API server did not authorize user %q: %w", r.User, err)
		}
		known = allowed
		keep := deniedFor
		if allowed {
			keep = allowedFor
		}
		a.answers.Add(key, allowed, keep)
	}
	if known != true {
		return fmt.Errorf("user %q may not %s nodes/%s of %s", r.User, r.Verb, r.Subresource, a.node)
	}
	return nil
}

// ask asks the API server whether a client may make a request.
func (a *access) ask(ctx context.Context, r nodeapi.Access) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	review, err := a.client.Review(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: r.User, Groups: append([]string{"system:authenticated"}, r.Groups...),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb:        r.Verb,
				Version:     "v1",
				Resource:    "nodes",
				Subresource: r.Subresource,
				Name:        a.node,
			}},
	})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
