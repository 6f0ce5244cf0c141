package imagepull

import (
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/imagepull/auth"
)

// TestNameOnce checks that an error names its image once, even if the runtime's text repeats
// the name.
func TestNameOnce(t *testing.T) {
	n := 0
	for _, a := range readAnswers(t) {
		image := ""
		for _, m := range wrapped().FindAllStringSubmatch(wrapping().FindString(a.text), 1) {
			image = m[1] + m[2]
		}
		if image == "" {
			continue
		}
		n++
		err := failure("app", image, &PullError{Image: image, Reason: ReasonPull, Class: a.class, Err: status.Error(a.code, a.text)})
		if got := strings.Count(err.Error(), image); got != 1 {
			t.Errorf("%s, %s: %d times: %s", a.runtime, a.what, got, err)
		}
	}
	if n < 60 {
		t.Errorf("only %d answers name an image", n)
	}
}

func TestBrief(t *testing.T) {
	const image = "r.example/busybox:nope"
	for _, tc := range []struct{ text, want string }{
		{`failed to pull and unpack image "r.example/busybox:nope": failed to resolve reference "r.example/busybox:nope": r.example/busybox:nope: not found`, "ErrImagePull: not found"},
		{`failed to pull and unpack image "docker.io/library/busybox:nope": failed to resolve image: docker.io/library/busybox:nope: not found`, "ErrImagePull: failed to resolve image: not found"},
		{`failed to parse image reference "a b": invalid reference format`, "ErrImagePull: invalid reference format"},
		{`initializing source docker://r.example/busybox:nope: reading manifest nope in r.example/busybox: manifest unknown`, "ErrImagePull: manifest unknown"},
		{`unable to pull image or OCI artifact: pull image err: initializing source docker://r.example/busybox:nope: reading manifest nope in r.example/busybox: manifest unknown; ` +
			`artifact err: image reference: get manifest from ref: create image source: reading manifest nope in r.example/busybox: manifest unknown`, "ErrImagePull: manifest unknown"},
		{`RegistryUnavailable: unable to pull image: initializing source docker://r.example/busybox:nope: it is down`, "ErrImagePull: image pull failed because the registry is unavailable: it is down"},
		{`RegistryUnavailable: it is down`, "ErrImagePull: image pull failed because the registry is unavailable: it is down"},
		{`no space left on device`, "ErrImagePull: no space left on device"},
	} {
		if got := (brief{&PullError{Image: image, Reason: ReasonPull, Err: status.Error(2, tc.text)}}).Error(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	refused := &PullError{Image: image, Reason: ReasonPull, Class: Unauthorized, Found: auth.Found{Credentials: []auth.Credential{{Source: "Secret a/b"}}},
		Err: status.Error(2, "unable to pull image or OCI artifact: pull image err: no; artifact err: no")}
	if got := (brief{refused}).Error(); got != "ErrImagePull: no (with the credentials of Secret a/b)" {
		t.Error(got)
	}
	if got := (brief{&PullError{Image: image, Reason: ReasonNeverPull}}).Error(); strings.Contains(got, image) {
		t.Error(got)
	}
}

func TestHintToFullDisk(t *testing.T) {
	e := &PullError{Class: Transient, Err: status.Error(2, "failed to extract layer: write /var/lib/containerd/x: no space left on device")}
	if got := e.hint(); !strings.Contains(got, "disk is full") || !strings.Contains(got, "podrun image prune") {
		t.Error(got)
	}
}
