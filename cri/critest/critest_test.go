package critest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/patience"
)

const image = "registry.example/busybox:1.36"

// fake returns a runtime whose registry has the suite's image.
func fake(t *testing.T, opts ...critest.Option) *critest.Runtime {
	t.Helper()
	rt := critest.ForTest(t, opts...)
	rt.AddRemote(critest.Image{Name: image, Cmd: []string{"sh"}})
	return rt
}

// noneLeft checks that the suite has removed everything that it created.
func noneLeft(t *testing.T, rt *critest.Runtime) {
	t.Helper()
	if left := rt.Leaked(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// profiles are the profiles that the fake runtime must implement.
var profiles = []critest.Profile{critest.Containerd(), critest.CRIO()}

func TestSuiteInProcess(t *testing.T) {
	t.Parallel()
	for _, p := range profiles {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			rt := fake(t, critest.As(p))
			critest.Suite(t, rt.Client, critest.SuiteConfig{Image: image, LogDir: t.TempDir(), Profile: p})
			noneLeft(t, rt)
		})
	}
}

func TestSuiteOverSocket(t *testing.T) {
	t.Parallel()
	for _, p := range profiles {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			rt := fake(t, critest.As(p))
			socket := filepath.Join(t.TempDir(), "cri.sock")
			stop, err := rt.Serve(socket)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			critest.Suite(t, dialer(t, "unix://"+socket), critest.SuiteConfig{Image: image, LogDir: t.TempDir(), Profile: p})
			noneLeft(t, rt)
		})
	}
}

// TestSuiteOnRuntime runs the suite on a real containerd or CRI-O, to verify that the fake runtime
// behaves in the same way. `make test`, hack/with-runtime and `hack/crio up` set the variables that
// it requires.
func TestSuiteOnRuntime(t *testing.T) {
	endpoint, image := os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), os.Getenv("PODRUN_TEST_IMAGE")
	if endpoint == "" || image == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	// Another process may also run the suite, and one that was killed has left its sandbox.
	parent := os.Getenv("PODRUN_CGROUP_ROOT") + "/critest" + strconv.Itoa(os.Getpid())
	// The runtime creates the parent cgroup, but does not remove it. It may still be removing the cgroups in it.
	t.Cleanup(func() {
		for _, pattern := range []string{"/sys/fs/cgroup" + parent, "/sys/fs/cgroup/*" + parent} {
			dirs, err := filepath.Glob(pattern)
			if err != nil {
				t.Error(err)
			}
			for _, d := range dirs {
				patience.Wait(t, patience.OnRuntime, "the runtime has removed the cgroups below "+d, func() bool {
					err = os.Remove(d)
					return !errors.Is(err, unix.EBUSY)
				})
				if err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
			}
		}
	})
	dial := dialer(t, endpoint)
	critest.Suite(t, dial, critest.SuiteConfig{Image: image, CgroupParent: parent, LogDir: t.TempDir(), Profile: profileOf(t, dial())})
}

// profileOf returns the profile of a real runtime.
func profileOf(t *testing.T, c *cri.Client) critest.Profile {
	t.Helper()
	defer c.Close()
	v, err := c.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles {
		if p.Name == v.GetRuntimeName() {
			return p
		}
	}
	t.Fatalf("no profile of %s", v.GetRuntimeName())
	return critest.Profile{}
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
