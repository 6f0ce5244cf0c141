package critest_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

// box is a pod on a fake runtime.
type box struct {
	*testing.T
	rt      *critest.Runtime
	c       *cri.Client
	sandbox string
	config  *runtimeapi.PodSandboxConfig
	attempt uint32
}

// inBox runs a test in a synctest bubble, on a runtime in which all images are present.
func inBox(t *testing.T, test func(*box), opts ...critest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := critest.ForTest(t, append(opts, critest.AnyImage())...)
		b := &box{T: t, rt: rt, c: rt.Client(), config: podConfig(t.TempDir())}
		id, err := b.c.RunPodSandbox(t.Context(), b.config, "")
		if err != nil {
			t.Fatal(err)
		}
		b.sandbox = id
		test(b)
	})
}

func podConfig(logs string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "ns", Uid: "uid"}, LogDirectory: logs,
	}
}

// start starts a container. Each container of a box has a different attempt number.
func (b *box) start(name string, command ...string) (id string, err error) {
	b.Helper()
	id, err = b.c.CreateContainer(b.Context(), b.sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: b.attempt},
		Image:    &runtimeapi.ImageSpec{Image: "app"}, Command: command, LogPath: name + ".log",
	}, b.config)
	if err != nil {
		b.Fatal(err)
	}
	b.attempt++
	return id, b.c.StartContainer(b.Context(), id)
}

func (b *box) mustStart(name string, command ...string) string {
	b.Helper()
	id, err := b.start(name, command...)
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// wantEnd checks the exit code and reason of a container, and the time of its exit to the
// millisecond.
func (b *box) wantEnd(id string, code int32, reason string, after time.Duration) {
	b.Helper()
	resp, err := b.c.ContainerStatus(b.Context(), id, false)
	if err != nil {
		b.Fatal(err)
	}
	st := resp.GetStatus()
	ran := time.Duration(0)
	if st.GetStartedAt() != 0 {
		ran = time.Duration(st.GetFinishedAt() - st.GetStartedAt()).Round(time.Millisecond)
	}
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != code || st.GetReason() != reason || ran != after {
		b.Errorf("got %s, code %d, reason %q after %v; want code %d, reason %q after %v",
			st.GetState(), st.GetExitCode(), st.GetReason(), ran, code, reason, after)
	}
}

func TestScript(t *testing.T) {
	inBox(t, func(b *box) {
		b.rt.Script("app",
			critest.Behavior{After: 10 * time.Minute, ExitCode: 2},
			critest.Behavior{StartErr: "no shim"},
			critest.Behavior{OOMKilled: true, After: time.Second},
			critest.Behavior{Lines: []critest.Line{{Text: "one"}, {After: time.Second, Text: "two", Stderr: true}}})
		first := b.mustStart("app")
		time.Sleep(time.Hour)
		b.wantEnd(first, 2, "Error", 10*time.Minute)

		second, err := b.start("app")
		if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "no shim") {
			b.Errorf("StartContainer: %v", err)
		}
		b.wantEnd(second, 128, "StartError", 0)

		third := b.mustStart("app")
		time.Sleep(time.Minute)
		b.wantEnd(third, 137, "OOMKilled", time.Second)

		// The last behavior applies to all later starts.
		for range 2 {
			fourth := b.mustStart("app")
			time.Sleep(time.Minute)
			b.wantEnd(fourth, 0, "Completed", time.Second)
		}
		log, err := os.ReadFile(b.config.GetLogDirectory() + "/app.log")
		if err != nil {
			b.Fatal(err)
		}
		want := []string{"stdout F one", "stderr F two", "stdout F one", "stderr F two"}
		for i, line := range strings.Split(strings.TrimSpace(string(log)), "\n") {
			at, text, _ := strings.Cut(line, " ")
			if _, err := time.Parse(time.RFC3339Nano, at); err != nil || i >= len(want) || text != want[i] {
				b.Errorf("log line %d is %q", i, line)
			}
		}
	})
}

func TestScriptOfOnePod(t *testing.T) {
	inBox(t, func(b *box) {
		b.rt.Script("app", critest.Behavior{ExitCode: 1})
		b.rt.Script("pod/app", critest.Behavior{ExitCode: 2})
		b.rt.Script("other/app", critest.Behavior{ExitCode: 3})
		id := b.mustStart("app")
		synctest.Wait()
		time.Sleep(time.Second)
		b.wantEnd(id, 2, "Error", 0)
	})
}

func TestBehaviorOnTERM(t *testing.T) {
	for name, c := range map[string]struct {
		behavior critest.Behavior
		code     int32
		reason   string
		after    time.Duration
	}{
		"default":  {critest.Behavior{Forever: true}, 143, "Error", 0},
		"clean":    {critest.Behavior{Forever: true, CleanTERM: true}, 0, "Completed", 0},
		"slow":     {critest.Behavior{Forever: true, TERMAfter: 5 * time.Second}, 143, "Error", 5 * time.Second},
		"too slow": {critest.Behavior{Forever: true, TERMAfter: time.Hour}, 137, "Error", 30 * time.Second},
		"ignored":  {critest.Behavior{After: time.Hour, IgnoreTERM: true}, 137, "Error", 30 * time.Second},
		"timed":    {critest.Behavior{After: time.Hour}, 143, "Error", 0},
		"in time":  {critest.Behavior{After: 10 * time.Second, IgnoreTERM: true, ExitCode: 4}, 4, "Error", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBox(t, func(b *box) {
				b.rt.Script("app", c.behavior)
				id := b.mustStart("app")
				synctest.Wait()
				if err := b.c.StopContainer(b.Context(), id, 30*time.Second); err != nil {
					b.Fatal(err)
				}
				b.wantEnd(id, c.code, c.reason, c.after)
			})
		})
	}
}

// TestServer checks that a container without a command runs until it is stopped.
func TestServer(t *testing.T) {
	inBox(t, func(b *box) {
		id := b.mustStart("app")
		time.Sleep(24 * time.Hour)
		if got, _ := b.rt.Container("app"); got.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			b.Errorf("after a day it is %s", got.State)
		}
		if err := b.c.StopContainer(b.Context(), id, time.Minute); err != nil {
			b.Fatal(err)
		}
		b.wantEnd(id, 0, "Completed", 24*time.Hour)
	})
}

func TestScriptExec(t *testing.T) {
	inBox(t, func(b *box) {
		b.rt.ScriptExec("app", func(cmd []string) *critest.Exec {
			switch cmd[0] {
			case "slow":
				return &critest.Exec{After: time.Minute, ExitCode: 3, Stdout: "out"}
			case "broken":
				return &critest.Exec{Err: status.Error(codes.Unknown, "no exec")}
			}
			return nil
		})
		id := b.mustStart("app")
		begin := time.Now()
		resp, err := b.c.ExecSync(b.Context(), id, []string{"slow"}, 0)
		if err != nil || resp.GetExitCode() != 3 || string(resp.GetStdout()) != "out" || time.Since(begin) != time.Minute {
			b.Errorf("slow: %v, %v after %v", resp, err, time.Since(begin))
		}
		if _, err := b.c.ExecSync(b.Context(), id, []string{"slow"}, 10*time.Second); status.Code(err) != codes.DeadlineExceeded {
			b.Errorf("slow with a timeout: %v", err)
		}
		if _, err := b.c.ExecSync(b.Context(), id, []string{"broken"}, 0); err == nil {
			b.Error("broken: no error")
		}
		if resp, err := b.c.ExecSync(b.Context(), id, []string{"echo", "hi"}, 0); err != nil || string(resp.GetStdout()) != "hi\n" {
			b.Errorf("echo: %v, %v", resp, err)
		}
		// The runtime kills the command of an exec with its container.
		time.AfterFunc(time.Second, func() {
			if err := b.rt.Exit("app", 0); err != nil {
				b.Error(err)
			}
		})
		if resp, err := b.c.ExecSync(b.Context(), id, []string{"sleep", "60"}, 0); err != nil || resp.GetExitCode() != 137 {
			b.Errorf("sleep: %v, %v", resp, err)
		}
	})
}

func TestExitAndRestart(t *testing.T) {
	inBox(t, func(b *box) {
		one, two := b.mustStart("one"), b.mustStart("two")
		time.Sleep(time.Second)
		if err := b.rt.Exit("one", 9); err != nil {
			b.Fatal(err)
		}
		b.wantEnd(one, 9, "Error", time.Second)
		if err := b.rt.Exit("one", 9); err == nil {
			b.Error("a command that was not started has exited")
		}
		time.Sleep(time.Second)
		b.rt.Restart()
		b.wantEnd(one, 9, "Error", time.Second)
		b.wantEnd(two, 255, "Unknown", 2*time.Second)
		if all := b.rt.Sandboxes(); len(all) != 1 || all[0].Ready || len(all[0].IPs) != 0 {
			b.Errorf("sandboxes after a reboot: %+v", all)
		}
		if err := b.c.RemovePodSandbox(b.Context(), b.sandbox); err != nil {
			b.Error(err)
		}
		if left := b.rt.Leaked(); len(left) > 0 {
			b.Errorf("left behind: %q", left)
		}
	})
}
