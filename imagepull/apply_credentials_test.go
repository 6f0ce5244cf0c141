package imagepull

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull/auth"
)

func TestCredentialsAreTriedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		var users []string
		r.pull = func(_ int, req *runtimeapi.PullImageRequest) error {
			users = append(users, req.Auth.GetUsername())
			if req.Auth.GetUsername() != "right" {
				return status.Error(codes.Unknown, "401 Unauthorized")
			}
			return nil
		}
		find := func(context.Context, []*corev1.Secret, string) (auth.Found, error) {
			return foundOf("wrong", "right", "unused"), nil
		}
		pulls := r.puller(Options{Auth: find}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
		if _, err := pulls.Wait(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
		wantLines(t, "users", users, []string{"wrong", "right"})
	})
}

// foundOf returns credentials for the given users, as a search would find them.
func foundOf(users ...string) (f auth.Found) {
	for _, u := range users {
		f.Credentials = append(f.Credentials, auth.Credential{
			Auth: &runtimeapi.AuthConfig{Username: u, Password: "s3cret of " + u}, Source: "Secret default/" + u})
	}
	return f
}

// A pull with wrong credentials must fail immediately. The error and the events must name the
// Secrets, but contain nothing of their content, even if the registry repeats it.
func TestRefusedCredentialsAreNamedAndNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pull = func(_ int, req *runtimeapi.PullImageRequest) error {
			return status.Error(codes.Unknown, "401 Unauthorized: no "+req.Auth.GetPassword())
		}
		find := func(context.Context, []*corev1.Secret, string) (auth.Found, error) {
			f := foundOf("one", "two")
			f.Notes = []string{"docker-credential-x: is not in $PATH"}
			return f, nil
		}
		pulls := r.puller(Options{Auth: find}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
		_, err := pulls.Wait(t.Context(), "app")
		var pull *PullError
		if !errors.As(err, &pull) || pull.Class != Unauthorized || len(r.tries) != 1 || r.tries["app:1"] != 2 {
			t.Fatalf("%v after %v", err, r.tries)
		}
		told := err.Error() + strings.Join(r.events, "\n")
		if strings.Contains(told, "s3cret") {
			t.Errorf("a credential is in %s", told)
		}
		for _, part := range []string{"401 Unauthorized: no ***", "(with the credentials of Secret default/one, Secret default/two); docker-credential-x: is not in $PATH"} {
			if strings.Count(told, part) != 2 {
				t.Errorf("the error or the event lacks %s:\n%s", part, told)
			}
		}
		if printed := fmt.Sprintf("%v %+v %#v", pull, *pull, *pull); strings.Contains(printed, "s3cret") {
			t.Errorf("printed: %s", printed)
		}
	})
}

// If a Secret cannot be parsed, the pull must fail instead of skipping the Secret.
func TestUnreadableCredentialsFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		find := func(context.Context, []*corev1.Secret, string) (auth.Found, error) {
			return auth.Found{}, errors.New("Secret default/x: is odd")
		}
		pulls := r.puller(Options{Auth: find}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
		_, err := pulls.Wait(t.Context(), "app")
		if err == nil || !strings.Contains(err.Error(), "ErrImagePull: Secret default/x: is odd") || len(r.tries) != 0 {
			t.Errorf("%v, %v", err, r.tries)
		}
	})
}
