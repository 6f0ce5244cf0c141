package script

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/heap"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// TestMain lets scripts run podrun as a separate process: if the test binary is started under the
// name podrun, it acts as podrun.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "podrun":
		os.Exit(runPodrun(os.Args[1:], heap.Began))
	case sessionName:
		os.Exit(serveSession())
	}
	inherited.Reset()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// runTests runs the tests with podrun in the PATH. testscript.Main would do this, but would also define the
// command podrun of scripts.
func runTests(m *testing.M) (code int, err error) {
	// In a guest, testdata is in the directory of the test binary.
	if _, err := os.Stat("../../go.mod"); err == nil {
		if err := os.Chdir("../.."); err != nil {
			return 0, err
		}
	}
	runAtOnce()
	dir, err := os.MkdirTemp("", "podrun-script-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// A copy, because other users must be able to execute it.
	bin := filepath.Join(dir, "bin")
	if err := copySelf(bin); err != nil {
		return 0, err
	}
	if err := os.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// copySelf copies the test binary to the file podrun in a new directory.
func copySelf(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "podrun"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// runAtOnce sets the default of -parallel to three scripts per CPU instead of one, because
// scripts mostly wait, and to six if their commands are not processes. On an emulated machine, scripts use the CPU most of the time, so the
// default remains one per CPU.
func runAtOnce() {
	if patience.Slowness > 1 {
		return
	}
	perCPU := 3
	if !ring.Is(2) {
		perCPU = 6
	}
	if err := flag.Set("test.parallel", strconv.Itoa(perCPU*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestScripts runs testdata/script with each profile of the fake runtime (CRI-O's in ring 2), with a new
// runtime for each script. Cgroups, mounts and directories are those of the host.
func TestScripts(t *testing.T) {
	ring.RequireRoot(t)
	t.Parallel()
	for i, p := range []critest.Profile{critest.Containerd(), critest.CRIO()} {
		t.Run(p.Name, func(t *testing.T) {
			ring.Require(t, 1+i)
			t.Parallel()
			h := newFakeHarness(t, p)
			testscript.Run(t, h.params())
		})
	}
}

// newFakeHarness returns a harness in which each script gets a fake runtime.
func newFakeHarness(t *testing.T, p critest.Profile) *harness {
	h := &harness{profile: p, sessions: !ring.Is(2), cgroupRoot: fmt.Sprintf("/podrunscripts%d%s%x", os.Getpid(), strings.ReplaceAll(p.Name, "-", ""), rand.Uint32())}
	// This must not happen after each script, because another script may be creating a cgroup
	// below it.
	t.Cleanup(func() {
		for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup"} {
			dirs, err := filepath.Glob(pattern + h.cgroupRoot)
			for _, dir := range dirs {
				err = errors.Join(err, os.Remove(dir))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	return h
}

// only selects one script of testdata/harness.
func (h *harness) only(name string) testscript.Params {
	return testscript.Params{Files: []string{filepath.Join("testdata", "harness", name+".txtar")}, Setup: h.setup, Condition: h.condition, Cmds: commands}
}

// TestScriptsOnRuntime runs the same scripts with a real runtime, containerd or CRI-O. `make test`,
// hack/with-runtime or `hack/crio up` set the environment for this.
func TestScriptsOnRuntime(t *testing.T) {
	h := &harness{
		endpoint: os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), cgroupRoot: os.Getenv("PODRUN_CGROUP_ROOT"),
		registry: os.Getenv("PODRUN_TEST_REGISTRY"), image: os.Getenv("PODRUN_TEST_IMAGE"), httpImage: os.Getenv("PODRUN_TEST_HTTP_IMAGE"),
	}
	if h.endpoint == "" || h.image == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	c, err := cri.Dial(h.endpoint, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.profile.Name = v.GetRuntimeName()
	// in parallel with the scripts on the fake runtime
	t.Parallel()
	testscript.Run(t, h.params())
}

// TestScriptsOnEmbedded runs the scripts with the runtime of the podrun-bundle in
// PODRUN_TEST_BUNDLE. Images come from the registry of hack/with-runtime.
func TestScriptsOnEmbedded(t *testing.T) {
	ring.Require(t, 2)
	bundle := os.Getenv("PODRUN_TEST_BUNDLE")
	h := &harness{
		cgroupRoot: os.Getenv("PODRUN_CGROUP_ROOT"), embedded: true,
		registry: os.Getenv("PODRUN_TEST_REGISTRY"), image: os.Getenv("PODRUN_TEST_IMAGE"), httpImage: os.Getenv("PODRUN_TEST_HTTP_IMAGE"),
	}
	if bundle == "" || h.image == "" {
		t.Skip("no embedded runtime: PODRUN_TEST_BUNDLE and PODRUN_TEST_IMAGE are not set; 'make bundle' builds one, hack/with-runtime has the images")
	}
	root := t.TempDir()
	podrun := func(args ...string) string {
		c := exec.Command(bundle, append(args, "--runtime=embedded", "--root-dir="+root)...)
		c.Env = []string{"PODRUN_CONFIG="}
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v", c.Args, err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() { podrun("runtime", "down", "--force") })
	h.endpoint = podrun("runtime", "up")
	podrun("image", "pull", h.image, h.httpImage, h.registry+"/busybox:nonroot", h.registry+"/busybox:username")
	// Parallel subtests run after the group's function has returned, but before the cleanup.
	t.Run("script", func(t *testing.T) { testscript.Run(t, h.params()) })
}

// harness is the state that the scripts of one run share. If there is no endpoint, each script gets
// a fake runtime.
type harness struct {
	// profile of the fake runtime; for a real runtime, only the name is set
	profile                    critest.Profile
	endpoint, cgroupRoot       string
	registry, image, httpImage string
	embedded                   bool
	uid                        int  // the ordinary user who runs podrun; 0 for root
	sessions                   bool // run podrun in sessions
	ticks                      int  // the limit of a script; 0 means that of the runtime
}

// onRuntime are the scripts that run on a real runtime in ring 1: the parts of a pod's life that the fake
// runtime can only pretend to do.
var onRuntime = []string{
	"apply-hello", "delete", "exec", "hooks", "image-load", "init", "inside", "logs", "ports", "run", "security", "volumes",
}

// smoke are the scripts that depend most on the runtime. In ring 2, these scripts run on a real
// runtime, and these and smokeOfCRIO on the fake runtime with CRI-O's profile. This saves time, most of
// which scripts need to start processes. In ring 3, all scripts run on all runtimes.
var smoke = slices.Concat(onRuntime, []string{
	"configmap", "container-ids", "create", "endings", "run-image", "runtime-errors", "serve", "signals", "wait-probes",
})

// smokeOfEmbedded is the smoke set on the embedded runtime: the scripts that depend on its network, its
// images, its runc and its life. The other scripts of smoke run on the host's containerd, with the same
// requests.
var smokeOfEmbedded = []string{
	"apply-hello", "apply-rollback", "cronjobs", "endings", "image-load", "init", "inside", "jobs", "logs", "ports", "replicas-serve", "run", "security", "serve", "volumes", "wait-probes",
}

// smokeOfCRIO are further scripts of the smoke set on CRI-O's profile: all that use the condition
// [crio], and those about images and resizing, which the runtimes implement differently.
var smokeOfCRIO = []string{"image", "image-commands", "image-credentials", "image-retry", "image-secret", "resize", "resources", "runtime", "start-order", "version"}

func (h *harness) params() testscript.Params {
	p := testscript.Params{RequireUniqueNames: true, Setup: h.setup, Condition: h.condition, Cmds: commands}
	dir := filepath.Join("testdata", "script")
	names := h.chosen()
	if names == nil {
		p.Dir = dir
		return p
	}
	for _, name := range names {
		p.Files = append(p.Files, filepath.Join(dir, name+".txtar"))
	}
	return p
}

// chosen returns the scripts of this run's ring; nil means all.
func (h *harness) chosen() []string {
	fake := h.endpoint == ""
	switch {
	case h.uid != 0 && ring.Is(3):
		return slices.Concat(smokeOfRootless, moreOfRootless)
	case h.uid != 0:
		return smokeOfRootless
	case ring.Is(3), fake && h.profile.Name != critest.CRIO().Name:
		return nil
	case fake:
		return slices.Concat(smoke, smokeOfCRIO)
	case h.embedded:
		return smokeOfEmbedded
	case ring.Is(2):
		return smoke
	}
	return onRuntime
}

// condition evaluates the conditions [fake], [real], [embedded], [user], [crio] and [cgroup1]. [user] is true if
// an ordinary user runs podrun; [crio] is true on CRI-O, and on the fake runtime with CRI-O's profile; [cgroup1] is true
// on cgroup v1.
func (h *harness) condition(name string) (bool, error) {
	switch name {
	case "fake":
		return h.endpoint == "", nil
	case "real":
		return h.endpoint != "", nil
	case "embedded":
		return h.embedded, nil
	case "user":
		return h.uid != 0, nil
	case "crio":
		return h.profile.Name == critest.CRIO().Name, nil
	case "cgroup1":
		_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
		return err != nil, nil
	}
	return false, fmt.Errorf("no such condition")
}

// script is a running script.
type script struct {
	name, work string
	cgroupRoot string
	fake       *critest.Runtime // nil on a real runtime
	// a client that only the harness uses
	client     *cri.Client
	background map[string]*background
	sessions   bool            // run podrun in sessions
	session    *session        // nil if there is none
	ctx        context.Context // ends when the script exceeds its limit
	over       atomic.Bool     // the script's commands have ended
	// functions that end the faults, by method
	faults map[string][]func()
	words  *strings.Replacer // replaces ${NAME} in the script's files
}

type scriptKey struct{}

func of(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// setup prepares a runtime, directories and variables for a script. The namespace of the pods
// contains the script's name, so that checkLeaks can find leftovers.
func (h *harness) setup(env *testscript.Env) error {
	s := &script{
		name: strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"), work: env.WorkDir, sessions: h.sessions,
		background: map[string]*background{}, faults: map[string][]func(){},
	}
	s.cgroupRoot = filepath.Join(h.cgroupRoot, strings.ReplaceAll(s.name, "-", ""))
	env.Values[scriptKey{}] = s
	vars, err := h.variables(s)
	if err != nil {
		return err
	}
	if vars["STUCK"], err = stuckRegistry(env); err != nil {
		return err
	}
	endpoint := h.endpoint
	if endpoint == "" {
		endpoint = "unix://" + filepath.Join(env.WorkDir, "cri.sock")
		if err := s.serveFake(env, vars, h.profile); err != nil {
			return err
		}
	}
	if err := h.privateRegistries(env, s, vars); err != nil {
		return err
	}
	// The contexts of the calls count ticks.
	if s.client, err = cri.Dial(endpoint, "", time.Hour); err != nil {
		return err
	}
	s.limit(env, h.ticks)
	env.Defer(func() { s.checkLeaks(env.T()) })
	for name, value := range vars {
		env.Setenv(name, value)
	}
	for name, value := range map[string]string{
		"CONTAINER_RUNTIME_ENDPOINT": endpoint, "ENDPOINT": endpoint, "PODRUN_NAMESPACE": s.name, "PODRUN_CGROUP_ROOT": s.cgroupRoot,
		"PODRUN_ROOT_DIR": s.path("root"), "PODRUN_POD_LOGS_DIR": s.path("logs/pods"), "PODRUN_CONTAINER_LOGS_DIR": s.path("logs/containers"),
		"PODRUN_CONFIG": "", "PODRUN_EVICTION_HARD": "", "PODRUN_HOSTNAME_OVERRIDE": "node", "HOME": s.path("home"), "PODRUN_CLUSTER_DOMAIN": "cluster.local",
	} {
		env.Setenv(name, value)
	}
	if err := s.fillIn(vars); err != nil {
		return err
	}
	return h.give(s.work)
}

func (s *script) path(name string) string { return filepath.Join(s.work, name) }

// variables returns the variables for scripts and their files.
func (h *harness) variables(s *script) (map[string]string, error) {
	vars := map[string]string{"IMAGE": h.image, "HTTP_IMAGE": h.httpImage, "REGISTRY": h.registry, "NS": s.name, "WORK": s.work}
	if h.endpoint == "" {
		vars["REGISTRY"] = "registry.example:5000"
		vars["IMAGE"], vars["HTTP_IMAGE"] = "registry.example:5000/busybox:1.36", "registry.example:5000/httpd:1"
	}
	// Each limit is sufficient, even on a busy machine: LIMIT for starting the first container of a pod and
	// for a command in a container, PULL_LIMIT for a failing pull. PULL_LIMIT is less than the first back-off
	// of a pull, except on an emulated machine.
	slow := 4 * time.Second * time.Duration(patience.Slowness)
	vars["LIMIT"], vars["PULL_LIMIT"] = max(30*time.Second, slow).String(), max(9*time.Second, slow).String()
	// No registry listens at DOWN.
	for _, name := range []string{"PORT", "PORT2", "DOWN"} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		vars[name] = port
	}
	vars["DOWN"] = "127.0.0.1:" + vars["DOWN"]
	return vars, nil
}

// stuckRegistry starts a registry that never responds, until the script ends.
func stuckRegistry(env *testscript.Env) (address string, err error) {
	return serveHTTP(env, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
}

// serveFake serves a fake runtime on a socket. The fake runtime has the images that hack/images
// builds for real runtimes.
func (s *script) serveFake(env *testscript.Env, vars map[string]string, p critest.Profile) error {
	rt := critest.New(critest.As(p))
	busybox := func(tag string) critest.Image {
		return critest.Image{Name: vars["REGISTRY"] + "/busybox:" + tag, Cmd: []string{"sh"}}
	}
	nonroot, username := busybox("nonroot"), busybox("username")
	nonroot.User, username.User = "65532", "app"
	for _, image := range []critest.Image{busybox("1.36"), nonroot, username, {Name: vars["HTTP_IMAGE"], Entrypoint: []string{"/httpd"}}} {
		rt.AddImage(image)
	}
	other := busybox("otherarch")
	other.PullErr = critest.ErrNoPlatform
	rt.AddRemote(busybox("pull"))
	rt.AddRemote(other)
	rt.AddRemote(critest.Image{Name: vars["DOWN"] + "/app:1", PullErr: critest.ErrRefused})
	rt.AddRemote(critest.Image{Name: vars["STUCK"] + "/app:1", PullDelay: time.Hour})
	stop, err := rt.Serve(s.path("cri.sock"))
	if err != nil {
		return err
	}
	s.fake = rt
	env.Defer(func() { stop(); rt.Close() })
	return nil
}

// fillIn replaces ${NAME} in the script's files if NAME is in vars, because other dollar signs are
// for the shells of containers.
func (s *script) fillIn(vars map[string]string) error {
	var pairs []string
	for name, value := range vars {
		pairs = append(pairs, "${"+name+"}", value)
	}
	s.words = strings.NewReplacer(pairs...)
	return filepath.WalkDir(s.work, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(s.words.Replace(string(data))), 0o644)
	})
}
