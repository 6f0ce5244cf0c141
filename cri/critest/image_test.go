package critest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

func TestPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := critest.ForTest(t)
		c := rt.Client()
		rt.AddImage(critest.Image{Name: "here", User: "1000:1000"})
		rt.AddRemote(critest.Image{Name: "slow:1", PullDelay: 5 * time.Minute, User: "app", Size: 7})
		rt.AddRemote(critest.Image{Name: "flaky", FailTimes: 2, PullErr: errors.New("server message: toomanyrequests")})
		rt.AddRemote(critest.Image{Name: "down", PullErr: critest.ErrRefused})
		rt.AddRemote(critest.Image{Name: "private", Username: "ada", Password: "secret"})
		rt.AddRemote(critest.Image{Name: "coded", PullErr: status.Error(codes.ResourceExhausted, "no space left on device")})

		pull := func(name string, auth *runtimeapi.AuthConfig) (string, error) {
			return c.Images.Pull(t.Context(), &runtimeapi.ImageSpec{Image: name}, auth, nil)
		}
		for i, step := range []struct {
			name string
			auth *runtimeapi.AuthConfig
			code codes.Code
			text string
		}{
			{"here", nil, codes.OK, ""},
			{"flaky", nil, codes.Unknown, `failed to pull and unpack image "docker.io/library/flaky:latest": failed to resolve reference "docker.io/library/flaky:latest": server message: toomanyrequests`},
			{"flaky", nil, codes.Unknown, "toomanyrequests"},
			{"flaky", nil, codes.OK, ""},
			{"down", nil, codes.Unknown, "connection refused"},
			{"down", nil, codes.Unknown, "connection refused"},
			{"private", nil, codes.Unknown, "insufficient_scope: authorization failed"},
			{"private", &runtimeapi.AuthConfig{Username: "ada", Password: "guess"}, codes.Unknown, "pull access denied"},
			{"private", &runtimeapi.AuthConfig{Username: "ada", Password: "secret"}, codes.OK, ""},
			{"coded", nil, codes.ResourceExhausted, "no space left"},
			{"none", nil, codes.NotFound, "docker.io/library/none:latest: not found"},
		} {
			_, err := pull(step.name, step.auth)
			if status.Code(err) != step.code || err != nil && !strings.Contains(err.Error(), step.text) {
				t.Errorf("step %d, %s: %v, want %s %s", i, step.name, err, step.code, step.text)
			}
		}

		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		slow := &runtimeapi.ImageSpec{Image: "slow:1"}
		if _, err := c.Images.Pull(short, slow, nil, nil); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("slow, in a minute: %v", err)
		}
		if img, err := c.Images.Status(t.Context(), slow); img != nil || err != nil {
			t.Errorf("after that the image is present: %v, %v", img, err)
		}
		begin := time.Now()
		id, err := pull("slow:1", nil)
		if err != nil || time.Since(begin) != 5*time.Minute {
			t.Errorf("slow: %v after %v", err, time.Since(begin))
		}
		img, err := c.Images.Status(t.Context(), slow)
		if err != nil || img.GetId() != id || img.GetUsername() != "app" || img.GetUid() != nil || img.GetSize() != 7 {
			t.Errorf("slow: %v, %v", img, err)
		}
		if img, err := c.Images.Status(t.Context(), &runtimeapi.ImageSpec{Image: "here"}); err != nil || img.GetUid().GetValue() != 1000 {
			t.Errorf("here: %v, %v", img, err)
		}
		if _, err := c.Images.Service.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: slow}); err != nil {
			t.Error(err)
		}
		if img, err := c.Images.Status(t.Context(), slow); img != nil || err != nil {
			t.Errorf("the removed image is still present: %v, %v", img, err)
		}
	})
}

// TestImageID checks that IDs are the same in every run, because golden files contain them.
func TestImageID(t *testing.T) {
	rt := critest.ForTest(t, critest.AnyImage())
	img, err := rt.Client().Images.Status(t.Context(), &runtimeapi.ImageSpec{Image: "busybox:1.36"})
	if want := "sha256:d5543228"; err != nil || !strings.HasPrefix(img.GetId(), want) || len(img.GetId()) != 71 {
		t.Errorf("got %s, %v; want %s…", img.GetId(), err, want)
	}
}
