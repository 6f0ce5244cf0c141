package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
)

// tokens requests and renews the service account tokens of pods.
type tokens struct {
	client  Client
	changed func()

	mu      sync.Mutex
	entries map[tokenKey]*token
	closed  bool
	loops   sync.WaitGroup
}

// tokenKey identifies a token: the name of its Secret is unique in the pod.
type tokenKey struct {
	uid    types.UID
	secret string
}

// token is one token of a pod.
type token struct {
	stop  context.CancelFunc
	value string // "" before the first answer
	err   error  // the result of the last request
}

// The delays before podrun repeats a failed request.
const (
	firstTokenRetry = time.Second
	lastTokenRetry  = time.Minute
	// A token is renewed after at most a day, as in the kubelet (pkg/kubelet/token).
	longestToken = 24 * time.Hour
)

func newTokens(client Client, changed func()) *tokens {
	return &tokens{client: client, changed: changed, entries: map[tokenKey]*token{}}
}

// project replaces the projections of tokens in a pod's volumes by projections of Secrets, and returns
// these Secrets. err names a token that podrun does not have yet.
func (t *tokens) project(pod *corev1.Pod) (secrets []*corev1.Secret, err error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			s := &v.Projected.Sources[j]
			if s.ServiceAccountToken == nil {
				continue
			}
			name := fmt.Sprintf("podrun-token.%s.%s.%d", pod.Name, v.Name, j)
			value, unknown := t.value(pod, name, s.ServiceAccountToken)
			if unknown != nil && err == nil {
				err = fmt.Errorf("volume %q: %w", v.Name, unknown)
			}
			item := corev1.KeyToPath{Key: corev1.ServiceAccountTokenKey, Path: s.ServiceAccountToken.Path}
			s.ServiceAccountToken = nil
			s.Secret = &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: []corev1.KeyToPath{item}}
			secrets = append(secrets, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name},
				Type:       identity.TokenSecretType,
				Data:       map[string][]byte{corev1.ServiceAccountTokenKey: []byte(value)},
			})
		}
	}
	return secrets, err
}

// value returns a token. The first call starts to request it.
func (t *tokens) value(pod *corev1.Pod, secret string, want *corev1.ServiceAccountTokenProjection) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tokenKey{pod.UID, secret}
	e := t.entries[key]
	if e == nil && !t.closed {
		ctx, stop := context.WithCancel(context.Background())
		e = &token{stop: stop}
		t.entries[key] = e
		request := tokenRequest(pod, want)
		account := pod.Spec.ServiceAccountName
		t.loops.Go(func() { t.renew(ctx, e, pod.Namespace, account, request) })
	}
	switch {
	case e == nil:
		return "", context.Canceled
	case e.value != "":
		return e.value, nil
	case e.err != nil:
		return "", e.err
	}
	return "", fmt.Errorf("the API server has not issued the token of service account %q yet", pod.Spec.ServiceAccountName)
}

func tokenRequest(pod *corev1.Pod, want *corev1.ServiceAccountTokenProjection) *authenticationv1.TokenRequest {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}
	if want.Audience != "" {
		r.Spec.Audiences = []string{want.Audience}
	}
	return r
}

// renew requests a token until ctx ends: again with back-off after a failure, otherwise after 80 %
// of the token's lifetime.
func (t *tokens) renew(ctx context.Context, e *token, namespace, account string, request *authenticationv1.TokenRequest) {
	retry := firstTokenRetry
	for {
		got, err := t.client.CreateToken(ctx, namespace, account, request)
		if ctx.Err() != nil {
			return
		}
		pause := retry
		t.mu.Lock()
		e.err = err
		if err == nil {
			e.value = got.Status.Token
			pause, retry = renewAfter(time.Now(), got), firstTokenRetry
		} else {
			retry = wait.Next(retry, firstTokenRetry, lastTokenRetry)
		}
		t.mu.Unlock()
		t.changed()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// renewAfter returns how long a token is used before it is renewed.
func renewAfter(now time.Time, got *authenticationv1.TokenRequest) time.Duration {
	left := got.Status.ExpirationTimestamp.Sub(now)
	if s := got.Spec.ExpirationSeconds; s != nil {
		left = min(left, time.Duration(*s)*time.Second)
	}
	return max(min(left*8/10, longestToken), firstTokenRetry)
}

// release ends the renewal of a pod's tokens.
func (t *tokens) release(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.entries {
		if key.uid == uid {
			e.stop()
			delete(t.entries, key)
		}
	}
}

// close ends all renewals.
func (t *tokens) close() {
	t.mu.Lock()
	t.closed = true
	for key, e := range t.entries {
		e.stop()
		delete(t.entries, key)
	}
	t.mu.Unlock()
	t.loops.Wait()
}
