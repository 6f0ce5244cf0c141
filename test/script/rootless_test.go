package script

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podrun/podrun/test/ring"
)

// smokeOfRootless are the scripts that depend most on what is different for an ordinary user, and the scripts of smoke.
// Of these, only runtime-errors does not run: it uses other runtimes, which podrun refuses for an ordinary user.
var smokeOfRootless = slices.Concat([]string{"cronjobs", "jobs"}, slices.DeleteFunc(slices.Clone(smoke), func(name string) bool { return name == "runtime-errors" }))

// moreOfRootless are further scripts that run as an ordinary user, in ring 3. The others limit resources, connect to
// the address of a pod from the host, read the host's mounts or processes, or create directories as root.
var moreOfRootless = []string{
	"apply-rollback", "debug", "describe", "downward", "life", "many", "projected", "prune", "replicas-serve", "restrict", "rollout", "subpath",
}

// TestScriptsAsUser runs the scripts as an ordinary user, with the runtime of the podrun-bundle in PODRUN_TEST_BUNDLE.
// The user and the subordinate IDs exist only in the mount namespace of the command that starts the runtime.
func TestScriptsAsUser(t *testing.T) {
	ring.Require(t, 2)
	bundle := os.Getenv("PODRUN_TEST_BUNDLE")
	h := &harness{
		embedded: true, uid: 3_000_000 + os.Getpid()%1_000_000,
		registry: os.Getenv("PODRUN_TEST_REGISTRY"), image: os.Getenv("PODRUN_TEST_IMAGE"), httpImage: os.Getenv("PODRUN_TEST_HTTP_IMAGE"),
	}
	if bundle == "" || h.image == "" {
		t.Skip("no embedded runtime: PODRUN_TEST_BUNDLE and PODRUN_TEST_IMAGE are not set; 'make bundle' builds one, hack/with-runtime has the images")
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/tmp", "u")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	u := scriptUser{uid: h.uid, dir: dir}
	if err := u.prepare(bundle); err != nil {
		t.Fatal(err)
	}
	podrun := func(args ...string) string {
		c := u.command(append([]string{filepath.Join(dir, "bundle")}, args...)...)
		c.Env = append(c.Env, "PODRUN_CONFIG=")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v", c.Args, err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() { podrun("runtime", "down", "--force") })
	h.endpoint = podrun("runtime", "up")
	podrun("image", "pull", h.image, h.httpImage, h.registry+"/busybox:nonroot", h.registry+"/busybox:username")
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	// Parallel subtests run after the group's function has returned, but before the cleanup.
	t.Run("script", func(t *testing.T) { testscript.Run(t, h.params()) })
}

// scriptUser is an ordinary user.
type scriptUser struct {
	uid int
	dir string // its home directory, which also has the programs and the files of /etc
}

// prepare makes the user's files: bundle, and bin/podrun, which executes this test's podrun as the user.
func (u scriptUser) prepare(bundle string) error {
	own, err := exec.LookPath("podrun")
	if err != nil {
		return err
	}
	first := 1_500_000_000
	files := map[string]string{
		"etc/passwd": fmt.Sprintf("root:x:0:0::/root:/bin/sh\nann:x:%d:%d::%s:/bin/sh\n", u.uid, u.uid, u.dir),
		"etc/subuid": fmt.Sprintf("ann:%d:65536\n", first), "etc/subgid": fmt.Sprintf("ann:%d:65536\n", first),
		"bin/podrun": fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid %d --regid %d --clear-groups %s \"$@\"\n", u.uid, u.uid, own),
	}
	for name, text := range files {
		path := filepath.Join(u.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(bundle)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(u.dir, "bundle"), data, 0o755); err != nil {
		return err
	}
	// Only the user that runs the tests can access these directories by default.
	for _, dir := range []string{u.dir, filepath.Dir(own), filepath.Dir(filepath.Dir(own))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return os.Chown(u.dir, u.uid, u.uid)
}

// command returns a command of the user, in a mount namespace with the user's files of /etc.
func (u scriptUser) command(args ...string) *exec.Cmd {
	const script = `uid=$1 dir=$2; shift 2
for f in passwd subuid subgid; do mount --bind "$dir/etc/$f" "/etc/$f" || exit 1; done
cd "$dir" && exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"`
	c := exec.Command("unshare", append([]string{"-m", "--propagation", "private", "sh", "-c", script, "sh", strconv.Itoa(u.uid), u.dir}, args...)...)
	c.Env = []string{"HOME=" + u.dir, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	return c
}

// give gives the files of a script to the user of the harness.
func (h *harness) give(work string) error {
	if h.uid == 0 {
		return nil
	}
	if err := os.Chmod(filepath.Dir(work), 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, h.uid, h.uid)
	})
}
