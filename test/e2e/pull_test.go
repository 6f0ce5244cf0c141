package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

const megabyte = 1 << 20

// TestPullTellsHowFarItIs checks that podrun occasionally prints a line with the progress of a slow
// pull if stderr is not a terminal. The byte counts come from containerd.
func TestPullTellsHowFarItIs(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	image := s.image(r, "progress", 6*megabyte, 2)
	// two layers, each of which takes 6 s
	s.set(1*megabyte, 0, 0)
	out := r.must("image", "pull", image)
	lines := regexp.MustCompile(`(?m)^Normal  PullProgress +`+regexp.QuoteMeta(image)+`: ([0-9.]+) of 12\.6 MB \([0-9]+%\), ([0-9.]+) (kB|MB)/s$`).FindAllStringSubmatch(out, -1)
	// The number of lines depends on the load of the machine.
	if len(lines) == 0 || len(lines) > 12 {
		t.Fatalf("%d lines of progress in\n%s", len(lines), out)
	}
	last, moved := 0.0, false
	for _, line := range lines {
		here, _ := strconv.ParseFloat(line[1], 64)
		rate, _ := strconv.ParseFloat(line[2], 64)
		if line[3] == "kB" {
			rate /= 1000
		}
		if here < last || here > 12.6 || rate > 10 {
			t.Errorf("%s", line[0])
		}
		last, moved = here, moved || rate > 0
	}
	if last == 0 || !moved {
		t.Errorf("the progress did not increase:\n%s", out)
	}
	if !strings.Contains(out, "Pulled ") {
		t.Errorf("%s", out)
	}
}

// TestPullProgressAsJSON checks that the progress of a pull is an event with numbers if -o json is
// set.
func TestPullProgressAsJSON(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	image := s.image(r, "json", 6*megabyte, 1)
	s.set(1*megabyte, 0, 0)
	out := r.must("image", "pull", "-o", "json", image)
	found, moved := false, false // found is set when podrun knows the size of the image
	for line := range strings.Lines(out) {
		var e struct {
			Reason string
			Pull   *struct {
				Image, State                 string
				Bytes, Total, BytesPerSecond int64
			}
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Pull == nil {
			continue
		}
		if !found && e.Pull.Total == 0 && e.Pull.Bytes == 0 {
			continue // the registry has not sent the manifest yet
		}
		found, moved = true, moved || e.Pull.Bytes > 0 && e.Pull.BytesPerSecond > 0
		if e.Reason != "PullProgress" || e.Pull.Image != image || e.Pull.State != "pulling" && e.Pull.State != "unpacking" ||
			e.Pull.Bytes > e.Pull.Total || e.Pull.Total < 6*megabyte {
			t.Errorf("%s", line)
		}
	}
	if !found || !moved {
		t.Errorf("no progress in\n%s", out)
	}
}

// TestPullProgressOnATerminal checks that podrun prints one line per pull on a terminal, updates
// it, and removes it at the end.
func TestPullProgressOnATerminal(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	one, two := s.image(r, "tty-one", 3*megabyte, 1), s.image(r, "tty-two", 3*megabyte, 1)
	s.set(1*megabyte, 0, 0)
	raw := r.onTerminal("image", "pull", one, two)
	for _, image := range []string{one, two} {
		if n := strings.Count(raw, image+": "); n < 2 {
			t.Errorf("%s was drawn %d times:\n%q", image, n, raw)
		}
	}
	screen := screenOf(raw)
	if strings.Contains(screen, "MB/s") || strings.Contains(screen, "waiting for") || strings.Count(screen, "Successfully pulled") != 2 {
		t.Errorf("at the end, the terminal shows\n%s", screen)
	}
}

// TestUnpackingIsTold checks that podrun reports that the runtime is unpacking an image when all
// its bytes are present. Unpacking may take longer than the download.
func TestUnpackingIsTold(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	raw := r.onTerminal("image", "pull", s.zeros(r, "zeros", 256*megabyte))
	if !regexp.MustCompile(`: unpacking (0\.[1-9] MB|[0-9]+ kB)`).MatchString(raw) || strings.Contains(screenOf(raw), "unpacking") {
		t.Errorf("%q", raw)
	}
}

// onTerminal runs podrun on a terminal and returns its output.
func (r *rig) onTerminal(args ...string) string {
	r.Helper()
	terminal, program := pty(r.T)
	c := exec.Command(r.path(), args...)
	c.Env = append(r.env(), "TERM=xterm")
	c.Stdout, c.Stderr = program, program
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	program.Close()
	var raw strings.Builder
	// Copy ends with EIO when no process has the terminal open any more.
	io.Copy(&raw, bufio.NewReader(terminal))
	if err := c.Wait(); err != nil {
		r.Fatalf("%v\n%s", err, raw.String())
	}
	return raw.String()
}

// pty opens a terminal of 200 columns.
func pty(t *testing.T) (terminal, program *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	fd := int(terminal.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 200, Row: 50}); err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return terminal, program
}

// screenOf returns the text that a terminal shows for the given output. It supports the escape
// sequences that podrun writes: cursor up, and erase to the end.
func screenOf(raw string) string {
	var lines []string
	for _, line := range strings.SplitAfter(strings.ReplaceAll(raw, "\r\n", "\n"), "\n") {
		for {
			m := regexp.MustCompile(`^\x1b\[(\d+)A\r\x1b\[J`).FindStringSubmatch(line)
			if m == nil {
				break
			}
			up, _ := strconv.Atoi(m[1])
			lines, line = lines[:len(lines)-up], line[len(m[0]):]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// TestStalledPullIsTriedAgain checks that podrun cancels a pull if the registry stops sending, and
// that the next pull fetches the rest. The test does not run in parallel, because no pull counts as
// stalled while another pull receives data.
func TestStalledPullIsTriedAgain(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	image := s.image(r, "stall", 6*megabyte, 1)
	s.set(0, 3*megabyte, 1)
	out := r.must("image", "pull", "--pull-stall-timeout", "6s", image)
	// The message contains the time since the last byte, which exceeds the limit on a busy machine.
	for _, want := range []string{
		`Failed to pull image "` + regexp.QuoteMeta(image) + `": no data received for ([6-9]|[0-9]{2,})s, at `, "Back-off pulling image", "Successfully pulled image",
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Neither a partial download of another tag nor a slow pull may count as a stall.
	left := s.image(r, "slow:left", 6*megabyte, 1)
	s.set(0, 3*megabyte, 1)
	if out, err := r.podrun("image", "pull", "--pull-stall-timeout", "0", "--timeout", "2s", left); err == nil {
		t.Errorf("%s", out)
	}
	slow := s.image(r, "slow:2", 12*megabyte, 1)
	s.set(1*megabyte, 0, 0)
	if out := r.must("image", "pull", "--pull-stall-timeout", "9s", slow); strings.Contains(out, "no data received") || !strings.Contains(out, " of 12.6 MB (") {
		t.Errorf("%s", out)
	}
}

// TestRegistryThatNeverAnswers checks that podrun cancels a pull if the registry accepts
// connections but never responds, and that the error names the registry. The test does not run in
// parallel, because no pull counts as stalled while another pull receives data.
func TestRegistryThatNeverAnswers(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the kernel accepts connections
	image := l.Addr().String() + "/mute:1"
	out, err := r.podrun("image", "pull", "--pull-stall-timeout", "2s", "--timeout", "30s", image)
	for _, want := range []string{`Failed to pull image "` + regexp.QuoteMeta(image) + `": registry ` + regexp.QuoteMeta(l.Addr().String()) + ` has not answered for ([2-9]|[0-9]{2,})s`, "increase --pull-stall-timeout"} {
		if err == nil || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestWarmImageAsksNobody checks that podrun starts a pod whose image is present without a request
// to the image's registry.
func TestWarmImageAsksNobody(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	image := s.address + "/busybox:warm"
	t.Cleanup(func() { r.podrun("image", "rm", image) })
	r.must("image", "pull", image)
	if s.count("") == 0 {
		t.Fatal("the registry received no request")
	}
	s.set(0, 0, 0)
	out := r.must("run", r.write("warm.yaml", `
apiVersion: v1
kind: Pod
metadata: {name: warm}
spec:
  dnsPolicy: Default
  restartPolicy: Never
  containers:
  - {name: one, image: "`+image+`", imagePullPolicy: IfNotPresent, command: ["true"]}
  - {name: two, image: "`+image+`", command: ["true"]}
`))
	if n := s.count(""); n != 0 || !strings.Contains(out, "already present on machine and can be accessed by the pod") {
		t.Errorf("the registry received %d requests: %v\n%s", n, s.requests, out)
	}
}

// TestImageVolumeWithSecret checks that podrun pulls the image of a volume with the pod's
// imagePullSecrets, and that other pods cannot use the image. If the runtime does not support image
// volumes, podrun must refuse them.
func TestImageVolumeWithSecret(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	s := newSlowRegistry(t)
	s.user, s.password = "puller", "pa55w0rd"
	image := s.address + "/busybox:volume"
	t.Cleanup(func() { r.podrun("image", "rm", image) })
	r.podrun("image", "rm", image)
	pod := func(name, secrets string) string {
		return r.pod(name, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  dnsPolicy: Default
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  `+secrets+`
  containers:
  - name: app
    image: IMAGE
    command: ["sh", "-c", "ls /data/bin/busybox && ! touch /data/x 2>/dev/null"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - {name: data, image: {reference: "`+image+`", pullPolicy: IfNotPresent}}
---
apiVersion: v1
kind: Secret
metadata: {name: regcred}
type: kubernetes.io/dockerconfigjson
stringData:
  .dockerconfigjson: '{"auths": {"`+s.address+`": {"username": "puller", "password": "pa55w0rd"}}}'
`)
	}
	with, without := pod("with", "imagePullSecrets: [{name: regcred}]"), pod("without", "")
	out, err := r.podrun("run", with)
	if strings.Contains(out, "does not support image volumes") && err != nil {
		t.Log("this runtime does not support image volumes: the pod was refused")
		return
	}
	if err != nil || !strings.Contains(out, "/data/bin/busybox") || !strings.Contains(out, "Successfully pulled image") {
		t.Fatalf("%v\n%s", err, out)
	}
	s.set(0, 0, 0)
	if out := r.must("run", with); s.count("") != 0 || !strings.Contains(out, "/data/bin/busybox") {
		t.Errorf("the registry received %d requests\n%s", s.count(""), out)
	}
	if out, err := r.podrun("run", without); err == nil || !strings.Contains(out, "ErrImagePull") {
		t.Errorf("a pod without the Secret got the volume: %v\n%s", err, out)
	}
}

// TestCancelledPull checks that the command after one that was interrupted during a pull succeeds,
// and fetches only the rest.
func TestCancelledPull(t *testing.T) {
	ring.Require(t, 2)
	const size = 4 * megabyte
	for _, test := range []struct {
		name string
		// bytes of blobs that the registry has sent when the command is interrupted
		at int64
		// true if a signal interrupts the command, false if its deadline does
		signal bool
	}{
		{"at-the-first-request", 0, true}, {"at-the-first-byte", 1, true}, {"in-the-beginning", megabyte, true},
		{"in-the-end", 2*size - megabyte/2, true}, {"when-all-is-sent", 2 * size, true}, {"by-the-deadline", 0, false},
		{"while-it-unpacks", 200 << 10, true}, // containerd issue 13909
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newSlowRegistry(t)
			var image string
			if test.name == "while-it-unpacks" {
				image = s.zeros(r, "cancel-"+test.name, 256*megabyte)
			} else {
				image = s.image(r, "cancel-"+test.name, size, 2)
			}
			// The image's layers contain no program, because the pod only serves to pull the image.
			pod := r.pod(test.name, `
apiVersion: v1
kind: Pod
metadata: {name: `+test.name+`}
spec:
  dnsPolicy: Default
  restartPolicy: Never
  containers: [{name: app, image: "`+image+`", command: ["/none"]}]
`)
			rate := int64(2 * megabyte)
			args, want := []string{"apply", pod}, 130
			if !test.signal {
				// slower than the deadline permits
				rate = megabyte / 2
				args, want = append(args, "--timeout", "3s"), 124
			}
			s.set(rate, 0, 0)
			rings := s.ringAt(test.at, test.signal && test.name != "while-it-unpacks")
			c := exec.Command(r.path(), args...)
			c.Env = r.env()
			var out strings.Builder
			c.Stdout, c.Stderr = &out, &out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if test.signal {
				<-rings
				if err := c.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
			c.Wait()
			// Exit code 127 means that the program does not exist.
			if code := c.ProcessState.ExitCode(); code != want && (code != 127 || test.at < 2*size) {
				t.Errorf("exit code %d, want %d\n%s", code, want, out.String())
			}
			if left := r.must("get", "-o", "name"); left != "" {
				t.Errorf("left: %s", left)
			}
			s.set(0, 0, 0)
			if out, _ := r.podrun("apply", pod); !strings.Contains(out, "Successfully pulled image") && test.at < 2*size || !strings.Contains(out, "Created ") {
				t.Errorf("the next apply:\n%s", out)
			}
			r.podrun("delete", test.name, "--grace-period", "0")
		})
	}
}
