package critest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

const image = "registry.example/busybox:1.36"

// fake makes a runtime with the suite's image in its registry.
func fake(t *testing.T, opts ...critest.Option) *critest.Runtime {
	t.Helper()
	rt := critest.ForTest(t, opts...)
	rt.AddRemote(critest.Image{Name: image, Cmd: []string{"sh"}})
	return rt
}

// noneLeft checks that the suite cleaned up.
func noneLeft(t *testing.T, rt *critest.Runtime) {
	t.Helper()
	if left := rt.Leaked(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSuiteInProcess(t *testing.T) {
	rt := fake(t)
	critest.Suite(t, rt.Client, critest.SuiteConfig{Image: image, LogDir: t.TempDir()})
	noneLeft(t, rt)
}

func TestSuiteOverSocket(t *testing.T) {
	rt := fake(t)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	stop, err := rt.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	critest.Suite(t, dialer(t, "unix://"+socket), critest.SuiteConfig{Image: image, LogDir: t.TempDir()})
	noneLeft(t, rt)
}

// TestSuiteOnContainerd holds the fake to the real thing; `make test` and
// hack/with-runtime set what it needs.
func TestSuiteOnContainerd(t *testing.T) {
	endpoint, image := os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), os.Getenv("PODRUN_TEST_IMAGE")
	if endpoint == "" || image == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	parent := os.Getenv("PODRUN_CGROUP_ROOT") + "/critest"
	// The runtime makes the parent and leaves it.
	t.Cleanup(func() {
		for _, pattern := range []string{"/sys/fs/cgroup" + parent, "/sys/fs/cgroup/*" + parent} {
			dirs, err := filepath.Glob(pattern)
			if err != nil {
				t.Error(err)
			}
			for _, d := range dirs {
				if err := os.Remove(d); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
			}
		}
	})
	critest.Suite(t, dialer(t, endpoint), critest.SuiteConfig{Image: image, CgroupParent: parent, LogDir: t.TempDir()})
}

func dialer(t *testing.T, endpoint string) func() *cri.Client {
	return func() *cri.Client {
		c, err := cri.Dial(endpoint, "", 2*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}
