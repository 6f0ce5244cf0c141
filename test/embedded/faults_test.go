package embedded

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/grpc/metadata"

	"github.com/podrun/podrun/cri"
	embed "github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/ring"
)

func TestNoexecIsRefused(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	if err := syscall.Mount("none", r.layout.RootDir, "tmpfs", syscall.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(r.layout.RootDir, 0); err != nil {
			t.Error(err)
		}
	}()
	r.fails(122, "--root-dir", "apply", "pod.yaml")
	r.fails(122, "mounted with noexec", "doctor")
}

func TestNoSpaceIsRefused(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	if err := syscall.Mount("none", r.layout.RootDir, "tmpfs", 0, "size=32m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(r.layout.RootDir, 0); err != nil {
			t.Error(err)
		}
	}()
	r.fails(122, "MB free", "apply", "pod.yaml")
	if left, err := filepath.Glob(r.layout.Dir() + "/*[0-9a-f]"); err != nil || len(left) > 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestADaemonThatDoesNotStartSaysWhy(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	r.kill()
	if err := os.RemoveAll(filepath.Join(r.layout.Containerd())); err != nil {
		t.Fatal(err)
	}
	r.write("root/runtime/containerd", "in the way")
	r.fails(125, "not a directory", "get")
	if err := os.Remove(r.layout.Containerd()); err != nil {
		t.Fatal(err)
	}
	r.must("get")
}

func TestDownWithoutContainerd(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("apply", "pod.yaml")
	r.answers() // the container executes its program
	r.kill()
	// The processes are shims, because the containers continue to run.
	for _, line := range r.processes() {
		if err := exec.Command("kill", "-9", strings.Split(line, "/")[2]).Run(); err != nil {
			t.Fatal(err)
		}
	}
	r.podPID()
	if err := os.Rename(r.layout.Containerd(), r.dir+"/containerd"); err != nil {
		t.Fatal(err)
	}
	r.write("root/runtime/containerd", "in the way")
	r.fails(122, "default/web", "runtime", "down")
	if out := r.must("runtime", "down", "--force"); !strings.Contains(out, "not a directory") || !strings.HasSuffix(out, "runtime removed\n") {
		t.Errorf("down wrote\n%s", out)
	}
	if left, err := filepath.Glob(r.layout.RootDir + "/pods/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if left, err := filepath.Glob(r.dir + "/l[oi][gn]*s/*"); err != nil || len(left) > 0 {
		t.Errorf("logs are left: %v, %v", left, err)
	}
}

func TestTheSandboxImageStays(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	r.fails(122, "sandbox image", "image", "rm", embed.PauseImage, "--force")
	r.must("image", "prune", "--all")
	r.must("apply", "pod.yaml")
	r.answers()
}

// TestTheSandboxImageIsNotReplaced checks that an archive cannot replace the sandbox image, whose
// program runs in every pod, and that doctor notices another image with its name.
func TestTheSandboxImageIsNotReplaced(t *testing.T) {
	r := newRig(t)
	r.must("apply", "pod.yaml")
	for _, name := range []string{embed.PauseImage, "pause.podrun.invalid/other:1", "localhost/web@sha256:" + strings.Repeat("1", 64)} {
		r.archive("evil.tar", name)
		r.fails(map[bool]int{true: 123, false: 122}[strings.Contains(name, "@")], name, "image", "load", "evil.tar")
		r.archive("root/images/evil.tar", name)
		if out := r.must("runtime", "up"); !strings.Contains(out, name) {
			t.Errorf("runtime up with %s in the directory of images wrote\n%s", name, out)
		}
		if err := os.Remove(filepath.Join(r.layout.Images(), "evil.tar")); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := r.run(bundle, "doctor"); strings.Contains(out, "does not use podrun's sandbox") {
		t.Errorf("doctor wrote\n%s", out)
	}
	// Only a process with access to containerd's socket can move the name.
	ref, err := embed.ReadSandboxImage(t.Context(), r.layout)
	if err != nil || !strings.HasPrefix(ref, "pause.podrun.invalid/pause@sha256:") {
		t.Fatalf("%q %v", ref, err)
	}
	moved := r.moveName(ref, imageName)
	r.fails(122, "not to podrun's with the digest "+strings.TrimPrefix(ref, "pause.podrun.invalid/pause@"), "doctor")
	r.must("runtime", "up")
	if out, _ := r.run(bundle, "doctor"); strings.Contains(out, moved) {
		t.Errorf("doctor wrote\n%s", out)
	}
	r.must("delete", "web")
	r.must("apply", "pod.yaml")
	r.answers()
}

// archive writes an archive of the pods' image under another name.
func (r *rig) archive(file, as string) {
	r.Helper()
	img, err := tarball.ImageFromPath(image, nil)
	if err != nil {
		r.Fatal(err)
	}
	var b bytes.Buffer
	// go-containerregistry itself refuses a wrong digest, so replace the name afterwards.
	placeholder, err := name.NewTag("localhost/" + strings.Repeat("x", len(as)-len("localhost/:1")) + ":1")
	if err == nil {
		err = tarball.Write(placeholder, img, &b)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.write(file, strings.ReplaceAll(b.String(), placeholder.String(), as))
}

// moveName makes a name of containerd refer to the image of another name. It returns the digest.
func (r *rig) moveName(name, other string) string {
	r.Helper()
	conn, err := cri.Dial(r.layout.Endpoint(), "", time.Minute)
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(r.Context(), "containerd-namespace", "k8s.io")
	images := imagesapi.NewImagesClient(conn.Images.Conn())
	found, err := images.Get(ctx, &imagesapi.GetImageRequest{Name: other})
	if err == nil {
		_, err = images.Update(ctx, &imagesapi.UpdateImageRequest{Image: &imagesapi.Image{Name: name, Target: found.Image.Target}})
	}
	if err != nil {
		r.Fatal(err)
	}
	return found.Image.Target.Digest
}

func TestTheProxyIsRemembered(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	environment := func() string {
		data, err := os.ReadFile(filepath.Join("/proc", itoa(r.daemon().PID), "environ"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	c := r.command(bundle, "runtime", "up")
	c.Env = append(c.Env, "NO_PROXY=localhost, .example")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.kill()
	r.must("get")
	if got := environment(); !strings.Contains(got, "NO_PROXY=localhost, .example\x00") {
		t.Errorf("another command has started it with %q", got)
	}
}

func TestALaterRouteIsReported(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	subnet, _, err := embed.ReadCollision(context.Background(), r.layout)
	if err != nil || !subnet.IsValid() {
		t.Fatalf("%v, %v", subnet, err)
	}
	if out, _ := r.run(bundle, "doctor"); strings.Contains(out, "overlaps") {
		t.Errorf("doctor wrote\n%s", out)
	}
	route := netip.PrefixFrom(subnet.Addr(), 25)
	if err := addRoute(t, route); err != nil {
		t.Fatal(err)
	}
	if out, _ := r.run(bundle, "doctor"); !strings.Contains(out, subnet.String()+" overlaps routes or addresses of this host ("+route.String()) || !strings.Contains(out, "podrun runtime down") {
		t.Errorf("doctor wrote\n%s", out)
	}
}

func TestAnOrdinaryUser(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	for _, dir := range []string{r.dir, filepath.Dir(r.dir), filepath.Dir(bundle)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{"apply pod.yaml": "must run as root", "get": "use 'sudo -E podrun get'", "runtime down": "must run as root"} {
		c := r.command(bundle, strings.Fields(args)...)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want %q\n%s", args, err, want, out)
		}
	}
}
