package embedded

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// verified is a rig with imagePolicy: verified, and a program that accepts the digests in a file.
type verified struct {
	*rig
	programs, allowed string
}

func newVerified(t *testing.T) *verified {
	r := newRig(t)
	v := &verified{rig: r, programs: filepath.Join(r.dir, "image-verifier.d"), allowed: filepath.Join(r.dir, "allowed")}
	r.write("config.yaml", fmt.Sprintf("apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nimagePolicy: verified\nimageVerifierDir: %s\n", v.programs))
	if err := os.Mkdir(v.programs, 0o755); err != nil {
		t.Fatal(err)
	}
	v.program("digests", fmt.Sprintf("read -r _ <&0\ngrep -qxF \"$4\" %s || { echo \"$4 is not allowed\"; exit 1; }", v.allowed))
	return v
}

func (v *verified) program(name, script string) {
	v.Helper()
	if err := os.WriteFile(filepath.Join(v.programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		v.Fatal(err)
	}
}

func (v *verified) allow(digests ...string) {
	v.Helper()
	if err := os.WriteFile(v.allowed, []byte(strings.Join(digests, "\n")+"\n"), 0o644); err != nil {
		v.Fatal(err)
	}
}

// with runs podrun with the policy.
func (v *verified) with(args ...string) []string {
	return append([]string{"--config", "config.yaml"}, args...)
}

func (v *verified) client() *cri.Client {
	v.Helper()
	client, err := cri.Dial(v.layout.Endpoint(), "", time.Minute)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { client.Close() })
	return client
}

func (v *verified) digest(name string) string {
	v.Helper()
	target, err := archive.TargetOf(v.Context(), v.client().Images.Conn(), name)
	if err != nil || target == nil {
		v.Fatalf("%s: %v, %v", name, target, err)
	}
	return target.Digest
}

// TestImagePolicy checks that no way leads past the image verifiers into a container: not an image that was in the store
// before the policy, not a pull by another client of containerd, not an archive, not missing programs.
func TestImagePolicy(t *testing.T) {
	ring.Require(t, 2)
	v := newVerified(t)
	v.must("apply", "pod.yaml") // before the policy
	busybox := v.digest(imageName)
	v.must("delete", "web")

	// The image is in the store. A start restarts containerd, because there are no pods.
	v.allow("none")
	pid := v.daemon().PID
	v.fails(123, busybox+" is not allowed", v.with("apply", "pod.yaml")...)
	if v.daemon().PID == pid {
		t.Error("containerd was not restarted with the policy")
	}
	v.allow(busybox)
	v.must(v.with("apply", "pod.yaml")...)
	v.answers()

	// The record is valid for these programs only. Without programs, nothing starts.
	v.allow("none")
	v.must(v.with("restart", "web")...)
	v.allow(busybox)
	v.program("second", "echo the second denies; exit 1")
	v.fails(123, "the second denies", v.with("restart", "web")...)
	for _, name := range []string{"second", "digests"} {
		if err := os.Remove(filepath.Join(v.programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	v.fails(123, "contains no image verifiers", v.with("restart", "web")...)
	v.pulls()
	v.loads()
	v.must("delete", "web")
}

// pulls checks pulls by podrun, and by another client that knows containerd only.
func (v *verified) pulls() {
	v.Helper()
	server := httptest.NewServer(registry.New())
	v.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.NewTag(host + "/web:1")
	if err != nil {
		v.Fatal(err)
	}
	img := v.image("one")
	if err := remote.Write(ref, img); err != nil {
		v.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		v.Fatal(err)
	}
	direct := func() error {
		ctx, cancel := patience.Context(v.Context(), patience.OnRuntime)
		defer cancel()
		_, err := v.client().Images.Pull(ctx, &runtimeapi.ImageSpec{Image: ref.String()}, nil, nil)
		return err
	}
	denied := func(want string) {
		v.Helper()
		if err := direct(); err == nil || !strings.Contains(err.Error(), want) {
			v.Errorf("a pull by another client: %v, want %q", err, want)
		}
		v.fails(123, want, v.with("image", "pull", ref.String())...)
		if target, err := archive.TargetOf(v.Context(), v.client().Images.Conn(), ref.String()); err != nil || target != nil {
			v.Errorf("the image is in the store: %v, %v", target, err)
		}
	}
	denied("contains no image verifiers")
	v.program("digests", fmt.Sprintf("grep -qxF \"$4\" %s || { echo \"$4 is not allowed\"; exit 1; }", v.allowed))
	denied(digest.String() + " is not allowed")
	if err := os.Chmod(filepath.Join(v.programs, "digests"), 0o777); err != nil {
		v.Fatal(err)
	}
	denied("can be changed by users other than root")
	if err := os.Chmod(filepath.Join(v.programs, "digests"), 0o755); err != nil {
		v.Fatal(err)
	}
	v.allow(digest.String())
	if err := direct(); err != nil {
		v.Error(err)
	}
	v.must(v.with("image", "pull", ref.String())...)
}

// loads checks archives: those of image load, and those in the directory of images.
func (v *verified) loads() {
	v.Helper()
	for file, load := range map[string][]string{
		"loaded.tar":              {"image", "load", "loaded.tar"},
		"root/images/dropped.tar": {"runtime", "up"},
	} {
		ref, err := name.NewTag("localhost/" + strings.TrimSuffix(filepath.Base(file), ".tar") + ":1")
		if err != nil {
			v.Fatal(err)
		}
		if err := tarball.WriteToFile(filepath.Join(v.dir, file), ref, v.image(file)); err != nil {
			v.Fatal(err)
		}
		out, err := v.run(bundle, v.with(load...)...)
		_, digest, found := strings.Cut(out, "sha256:")
		if !found || !strings.Contains(out, "is not allowed") {
			v.Fatalf("%v: %v: %s", load, err, out)
		}
		if target, err := archive.TargetOf(v.Context(), v.client().Images.Conn(), ref.String()); err != nil || target != nil {
			v.Errorf("%v: the image is in the store: %v, %v", load, target, err)
		}
		if load[0] == "image" {
			v.fails(123, "is not allowed", v.with(load...)...)
		}
		v.allow("sha256:" + digest[:64])
		v.must(v.with(load...)...)
		if got := v.digest(ref.String()); got != "sha256:"+digest[:64] {
			v.Errorf("loaded %s, verified %s", got, digest[:64])
		}
	}
}

// image returns an image that differs from the others.
func (v *verified) image(label string) v1.Image {
	v.Helper()
	img, err := tarball.ImageFromPath(image, nil)
	if err == nil {
		img, err = mutate.Config(img, v1.Config{Labels: map[string]string{"test": label}, Env: []string{"PATH=/bin"}})
	}
	if err != nil {
		v.Fatal(err)
	}
	return img
}

// TestImagePolicyAnotherRuntime checks that the policy is refused with a runtime that podrun does not control.
func TestImagePolicyAnotherRuntime(t *testing.T) {
	ring.Require(t, 2)
	v := newVerified(t)
	v.must("runtime", "up")
	other := newVerified(t)
	v.Cleanup(func() { os.RemoveAll(other.layout.Dir()) }) // the record of the runtime
	for _, args := range [][]string{{"apply", "pod.yaml"}, {"image", "load", image}, {"image", "pull", imageName}, {"run", "pod.yaml"}} {
		other.fails(122, "requires the embedded runtime", other.with(append(args, "--container-runtime-endpoint", v.layout.Endpoint())...)...)
	}
}
