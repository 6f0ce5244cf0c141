// Package e2e tests podrun on a real runtime, including attacks from inside containers.
package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/binary"
	"github.com/podrun/podrun/test/patience"
)

// program is podrun, built with fault points, at which a test can kill it.
var program string

func TestMain(m *testing.M) {
	// By default, Go runs one test per CPU in parallel, but these tests wait most of the time.
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary.Main(m, &program, "-tags", "faultpoints,grpcnotrace")
}

// rig is a root directory of podrun on the real runtime.
type rig struct {
	*testing.T
	// the root directory, files, and replacements for directories of the host
	dir string
	// a directory of the host to which no container may have access
	host string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if program == "" || os.Getenv("PODRUN_TEST_IMAGE") == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	r := &rig{T: t, dir: t.TempDir()}
	r.host = filepath.Join(r.dir, "host")
	if err := os.Mkdir(r.host, 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("host/file", "of the host\n")
	t.Cleanup(func() {
		r.podrun("delete", "--all", "--grace-period", "0")
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), r.dir) {
			t.Errorf("mounts left below %s (%v)", r.dir, err)
		}
		if data, err := os.ReadFile(r.host + "/file"); string(data) != "of the host\n" {
			t.Errorf("the host's file is %q, %v", data, err)
		}
		if entries, err := os.ReadDir(r.host); len(entries) != 1 {
			t.Errorf("the host's directory has %v, %v", entries, err)
		}
	})
	return r
}

func (r *rig) write(name, text string) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
	return path
}

// podrun runs a command and returns its output.
func (r *rig) podrun(args ...string) (string, error) {
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	c := patience.Command(ctx, program, args...)
	c.Env = r.env()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// path returns the path of the podrun binary.
func (r *rig) path() string { return program }

// env returns the environment of podrun processes.
func (r *rig) env() []string {
	return append(os.Environ(), "PODRUN_CONFIG=", "PODRUN_ROOT_DIR="+r.dir+"/root", "PODRUN_POD_LOGS_DIR="+r.dir+"/logs",
		"PODRUN_CONTAINER_LOGS_DIR="+r.dir+"/containers", "PODRUN_NAMESPACE=e2e", "HOME="+r.dir+"/home")
}

func (r *rig) must(args ...string) string {
	r.Helper()
	out, err := r.podrun(args...)
	if err != nil {
		r.Fatalf("podrun %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// until repeatedly reads the logs of a pod until they contain a text.
func (r *rig) until(pod, text string) string {
	r.Helper()
	var out string
	patience.Wait(r, patience.OnRuntime, fmt.Sprintf("no %q in the logs", text), func() bool {
		out, _ = r.podrun("logs", pod, "--all-containers")
		return strings.Contains(out, text)
	})
	return out
}

// pod writes a manifest. It replaces IMAGE and HOST in the text, and returns the path of the file.
func (r *rig) pod(name, text string) string {
	r.Helper()
	return r.write(name+".yaml", strings.NewReplacer("IMAGE", os.Getenv("PODRUN_TEST_IMAGE"), "HOST", r.host).Replace(text))
}

// volume returns the directory of a pod's volume on the host.
func (r *rig) volume(plugin, name string) string {
	r.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "root", "pods", "*", "volumes", "kubernetes.io~"+plugin, name))
	if err != nil || len(found) != 1 {
		r.Fatalf("volume %s: %v, %v", name, found, err)
	}
	return found[0]
}
