package script

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// inheritedEnv makes TestInherited run the script, instead of starting a process for each state.
const inheritedEnv = "PODRUN_TEST_INHERITED"

// inheritedState is state that a process inherits from its parent.
type inheritedState struct {
	name    string
	shell   string   // a shell command that sets the state
	env     []string // environment variables to set
	without []string // environment variables to unset
	mounts  bool     // the process gets a mount namespace
	cap     uintptr  // a capability that the process does not get
}

func inheritedStates(private string) []inheritedState {
	return []inheritedState{
		{name: "ignored signals", shell: "trap '' HUP INT QUIT TERM PIPE CHLD USR1 WINCH"},
		{name: "umask 0077", shell: "umask 0077"},
		{name: "umask 0", shell: "umask 0"},
		{name: "closed stdin", shell: "exec <&-"},
		{name: "variables of podrun", env: []string{"PODRUN_NAMESPACE=other", "PODRUN_ROOT_DIR=/nonexistent", "PODRUN_CONFIG=/nonexistent", "PODRUN_MAX_PODS=0", "PODRUN_CONTAINER_RUNTIME_ENDPOINT=unix:///nonexistent"}},
		{name: "other variables", env: []string{"DOCKER_CONFIG=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "XDG_RUNTIME_DIR=/nonexistent", "XDG_CACHE_HOME=/nonexistent", "TZ=Asia/Kathmandu"}},
		{name: "no home", without: []string{"HOME", "USER", "LOGNAME"}},
		{name: "private TMPDIR", env: []string{"TMPDIR=" + private, "GOTMPDIR=" + private}},
		{name: "locale", env: []string{"LANG=de_DE.UTF-8", "LC_ALL=tr_TR.ISO-8859-9", "LANGUAGE=de:fr"}},
		{name: "read-only home", mounts: true, shell: "mount -t tmpfs -o ro none /mnt && export HOME=/mnt"},
		{name: "no CAP_SYS_RESOURCE", cap: unix.CAP_SYS_RESOURCE},
	}
}

// TestInherited runs a script in test processes that inherit unusual state, on which no test may
// depend.
func TestInherited(t *testing.T) {
	ring.RequireRoot(t)
	if os.Getenv(inheritedEnv) != "" {
		h := newFakeHarness(t, critest.Containerd())
		testscript.Run(t, h.only("inherited"))
		return
	}
	t.Parallel()
	// The parent of this directory has mode 0700.
	for _, state := range inheritedStates(t.TempDir()) {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			if out, err := state.command(t, "-test.run=^TestInherited$").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// command returns a command that runs the test binary with the state. It must be started on the
// thread of the caller.
func (s inheritedState) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := patience.Context(t.Context(), patience.OnRuntime)
	t.Cleanup(cancel)
	shell := `exec "$0" "$@"`
	if s.shell != "" {
		shell = s.shell + " && " + shell
	}
	c := patience.Command(ctx, "sh", append([]string{"-c", shell, self}, args...)...)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains(s.without, name) {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(append(c.Env, inheritedEnv+"=1"), s.env...)
	c.SysProcAttr = &syscall.SysProcAttr{}
	if s.mounts {
		c.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if s.cap != 0 {
		// The thread ends with the goroutine, because it remains locked.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, s.cap, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
