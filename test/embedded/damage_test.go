package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	embed "github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/ring"
)

// counterText is a pod that adds a line to a file in its emptyDir at each start of its container.
const counterText = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %s
    command: [sh, -c, "echo started | busybox tee -a /d/starts; exec httpd -f -p 8080 -h /www"]
    ports: [{containerPort: 8080, hostPort: %d}]
    volumeMounts: [{name: d, mountPath: /d}]
  volumes: [{name: d, emptyDir: {}}]
`

// supervisor is a running podrun serve.
type supervisor struct {
	*rig
	c    *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
	sent bytes.Buffer // the messages that it sent to systemd
}

func (s *supervisor) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(p)
}

func (s *supervisor) texts() (said, sent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String(), s.sent.String()
}

// serve starts podrun serve on the rig's manifests.
func (r *rig) serve(program string, args ...string) *supervisor {
	r.Helper()
	s := &supervisor{rig: r, c: r.command(program, append([]string{"serve", r.dir + "/manifests"}, args...)...)}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: r.dir + "/notify", Net: "unixgram"})
	if err != nil {
		r.Fatal(err)
	}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := notify.Read(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.sent.Write(append(b[:n:n], '\n'))
			s.mu.Unlock()
		}
	}()
	s.c.Stdout, s.c.Stderr = s, s
	s.c.Env = append(s.c.Env, "NOTIFY_SOCKET="+r.dir+"/notify", "WATCHDOG_USEC=2000000")
	if err := s.c.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		s.stop()
		_ = notify.Close()
		if r.Failed() {
			said, sent := s.texts()
			r.Logf("serve wrote\n%s\nand sent\n%s", said, sent)
		}
	})
	return s
}

func (s *supervisor) stop() {
	if s.c.ProcessState == nil {
		_ = s.c.Process.Signal(syscall.SIGTERM) // the process may have already exited
		_ = s.c.Wait()
		_ = os.Remove(s.dir + "/notify")
	}
}

// readyz returns the response of /readyz?verbose.
func (r *rig) readyz() (code int, text string) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.layout.RootDir+"/serve/podrun.sock")
	}}}
	answer, err := client.Get("http://podrun/readyz?verbose")
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// counter starts the pod of counterText and waits until it runs.
func (r *rig) counter() {
	r.Helper()
	if err := os.Mkdir(filepath.Join(r.dir, "manifests"), 0o755); err != nil {
		r.Fatal(err)
	}
	r.write("manifests/web.yaml", fmt.Sprintf(counterText, imageName, r.port))
}

// starts returns the number of times that the pod's container was started.
func (r *rig) starts() int {
	files, _ := filepath.Glob(r.layout.RootDir + "/pods/*/volumes/kubernetes.io~empty-dir/d/starts")
	if len(files) != 1 {
		return 0
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "started")
}

const (
	metaDB     = "io.containerd.metadata.v1.bolt/meta.db"
	snapshotDB = "io.containerd.snapshotter.v1.overlayfs/metadata.db"
	blobs      = "io.containerd.content.v1.content/blobs/sha256"
	snapshots  = "io.containerd.snapshotter.v1.overlayfs/snapshots"
)

// damage changes a file in the store of a stopped containerd.
func (r *rig) damage(name string, change func(path string) error) {
	r.Helper()
	if err := change(filepath.Join(r.layout.Containerd(), name)); err != nil {
		r.Fatal(err)
	}
}

func truncate(size int64) func(string) error {
	return func(path string) error { return os.Truncate(path, size) }
}

// overwrite returns a function that overwrites n bytes at an offset.
func overwrite(offset int64, n int) func(string) error {
	return func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, n), offset)
		return errors.Join(err, f.Close())
	}
}

// containersOf counts the pod's processes, without the children that httpd forks for requests.
func (r *rig) containersOf() int {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		r.Fatal(err)
	}
	parents := map[string]string{} // by PID
	for _, name := range names {
		dir := filepath.Dir(name)
		line, err := os.ReadFile(name)
		groups, gerr := os.ReadFile(filepath.Join(dir, "cgroup"))
		status, serr := os.ReadFile(filepath.Join(dir, "status"))
		if err == nil && gerr == nil && serr == nil && strings.HasPrefix(string(line), "httpd\x00-f\x00") && strings.Contains(string(groups), r.cgroup()) {
			_, after, _ := strings.Cut(string(status), "\nPPid:\t")
			parents[filepath.Base(dir)], _, _ = strings.Cut(after, "\n")
		}
	}
	n := 0
	for _, parent := range parents {
		if _, forked := parents[parent]; !forked {
			n++
		}
	}
	return n
}

// TestADamagedStore covers a store that was truncated while the host was up. Without recovery,
// podrun must keep all files and report the damage. With recovery, it must replace the store, and
// the pod must run once, with its emptyDir and its logs (containerd/containerd#4838,
// k3s-io/k3s#5669).
func TestADamagedStore(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.counter()
	s := r.serve(bundle)
	r.answers()
	s.stop()
	r.kill()
	r.damage(metaDB, truncate(16384))

	s = r.serve(bundle, "--runtime-recover=false")
	r.until("three starts have failed", func() bool { return embed.ReadEnds(t.Context(), r.layout).Damaged > embed.DamagedStarts })
	r.until("/readyz reports the damage", func() bool {
		code, text := r.readyz()
		return code == 503 && strings.Contains(text, "[-]runtime failed: ") && strings.Contains(text, "damaged") && strings.Contains(text, "--runtime-recover=false keeps the store")
	})
	r.until("systemd knows", func() bool {
		_, sent := s.texts()
		return strings.Contains(sent, "READY=1") && strings.Contains(sent, "WATCHDOG=1") && strings.Contains(sent, "STATUS=1 pods: ") && strings.Contains(sent, "the container runtime does not run: ")
	})
	r.fails(122, "it cannot be used: ", "doctor")
	// While the next start is in progress, the state is "running".
	r.until("runtime status reports the failure", func() bool {
		out := r.must("runtime", "status")
		return strings.Contains(out, "failed") && strings.Contains(out, "damaged: panic: ")
	})
	r.answers() // the container is still running
	if r.starts() != 1 || r.containersOf() != 1 {
		t.Errorf("%d starts, %d containers", r.starts(), r.containersOf())
	}
	if _, err := os.Stat(r.layout.Replaced()); err == nil {
		t.Error("the store was replaced")
	}
	s.stop()

	s = r.serve(bundle)
	r.until("the pod runs again", func() bool { return r.starts() == 2 })
	r.answers()
	if r.containersOf() != 1 {
		t.Errorf("%d containers", r.containersOf())
	}
	r.until("the runtime is ready", func() bool { code, _ := r.readyz(); return code == 200 })
	if _, text := r.readyz(); !strings.Contains(text, "[+]runtime ok: podrun replaced the damaged store at ") {
		t.Errorf("/readyz answers\n%s", text)
	}
	if said, _ := s.texts(); strings.Count(said, "whose writable layers are lost") != 1 {
		t.Errorf("serve wrote\n%s", said)
	}
	if out := r.must("events", "-o", "json"); strings.Count(out, `"RuntimeStoreReplaced"`) != 1 {
		t.Errorf("events wrote\n%s", out)
	}
	if out := r.must("runtime", "status"); !strings.Contains(out, "Replaced: ") || !strings.Contains(out, r.layout.Replaced()) {
		t.Errorf("runtime status wrote\n%s", out)
	}
	// The logs of the lost container are kept, because the restart count continues.
	if out := r.must("logs", "web"); out != "started\n" {
		t.Errorf("logs wrote %q", out)
	}
	if logs, err := filepath.Glob(r.dir + "/logs/*/web/[01].log"); err != nil || len(logs) != 2 {
		t.Errorf("logs %v, %v", logs, err)
	}
	if out := r.must("get", "web"); !strings.Contains(out, "1/1     Running   1 ") {
		t.Errorf("get wrote\n%s", out)
	}
}

// TestAnEnvironmentIsNotDamage checks that podrun replaces neither a store on a read-only file
// system, even if it is damaged, nor a store that the user has mounted.
func TestAnEnvironmentIsNotDamage(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("apply", "pod.yaml")
	r.kill()
	r.damage(metaDB, truncate(100))
	store := r.layout.Containerd()
	mounted := func(flags uintptr) error {
		return errors.Join(syscall.Mount(store, store, "", syscall.MS_BIND, ""), syscall.Mount("", store, "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, ""))
	}
	if err := mounted(syscall.MS_RDONLY); err != nil {
		t.Fatal(err)
	}
	unmount := func() {
		if err := syscall.Unmount(store, 0); err != nil {
			t.Error(err)
		}
	}
	for range 2 * embed.DamagedStarts {
		r.fails(125, "read-only file system", "runtime", "up")
	}
	unmount()
	if err := mounted(0); err != nil {
		t.Fatal(err)
	}
	r.fails(125, "podrun does not replace the store: "+store+" is a mount point", "runtime", "up")
	unmount()
	r.answers()
	r.fails(125, "'podrun runtime up' ends all containers and replaces the store", "apply", "pod.yaml")
	r.must("runtime", "up")
	r.must("apply", "pod.yaml")
	r.answers()
}

// TestKilledReplacement kills podrun between the steps of a replacement. The next start must complete
// the replacement.
func TestKilledReplacement(t *testing.T) {
	ring.Require(t, 3)
	killed := filepath.Join(t.TempDir(), "podrun")
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "grpcnotrace,podrun_bundle,faultpoints", "-o", killed, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, point := range []string{"condemned", "ended", "pods-ended", "released", "moved", "announced"} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t)
			r.counter()
			s := r.serve(bundle)
			r.answers()
			s.stop()
			r.kill()
			r.damage(metaDB, truncate(16384))
			c := r.command(killed, "runtime", "up")
			c.Env = append(c.Env, "PODRUN_FAULTPOINT=store/"+point+"#1")
			if out, err := c.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("%v\n%s", err, out)
			}
			s = r.serve(bundle)
			r.until("the pod runs again", func() bool { return r.starts() == 2 })
			r.answers()
			if r.containersOf() != 1 {
				t.Errorf("%d containers", r.containersOf())
			}
			r.until("the replacement is reported", func() bool {
				said, _ := s.texts()
				return strings.Contains(said, "whose writable layers are lost")
			})
		})
	}
}

// usedPages lists the offsets of the pages of a database that contain data.
func usedPages(path string) ([]int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []int64
	for at := 0; at+4096 <= len(data); at += 4096 {
		if len(bytes.Trim(data[at:at+4096], "\x00")) > 0 {
			out = append(out, int64(at))
		}
	}
	return out, nil
}

// damages lists the cases of TestDamageSweep: n offsets and some truncations of each database, and the
// loss of parts of the image.
func damages(n int) []struct {
	name   string
	file   string
	change func(string) error
} {
	type one = struct {
		name   string
		file   string
		change func(string) error
	}
	var out []one
	for _, db := range []string{metaDB, snapshotDB} {
		for i := range n {
			whole := i%2 == 1
			out = append(out, one{fmt.Sprintf("%s, page at %d/%d of its used pages, %s", filepath.Base(db), i, n, map[bool]string{false: "512 bytes overwritten", true: "4096 bytes overwritten"}[whole]), db, func(path string) error {
				pages, err := usedPages(path)
				if err != nil {
					return err
				}
				size := 512
				if whole {
					size = 4096
				}
				return overwrite(pages[i*len(pages)/n], size)(path)
			}})
		}
		for _, size := range []int64{0, 1, 4096, 8192, 12288, 20480, 32768, 65536} {
			out = append(out, one{fmt.Sprintf("%s, truncated to %d bytes", filepath.Base(db), size), db, truncate(size)})
		}
		out = append(out, one{filepath.Base(db) + ", removed", db, os.Remove})
	}
	layers := func(change func(string) error) func(string) error {
		return func(dir string) error {
			entries, err := filepath.Glob(dir + "/[0-9]*")
			if err != nil || len(entries) == 0 {
				return fmt.Errorf("no layers: %w", err)
			}
			// The first numbers are those of image layers, because pods are created later.
			return change(entries[0])
		}
	}
	largest := func(change func(string) error) func(string) error {
		return func(dir string) error {
			entries, err := os.ReadDir(dir)
			if err != nil {
				return err
			}
			var path string
			var size int64
			for _, e := range entries {
				if info, err := e.Info(); err == nil && info.Size() > size {
					path, size = filepath.Join(dir, e.Name()), info.Size()
				}
			}
			return change(path)
		}
	}
	return append(out,
		one{"a layer of the image, directory removed", snapshots, layers(os.RemoveAll)},
		one{"all layers of images, directories removed", snapshots, func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/1"), os.RemoveAll(dir+"/2"))
		}},
		one{"the layer's blob, truncated to half", blobs, largest(func(path string) error { return os.Truncate(path, 500000) })},
		one{"the layer's blob, 512 bytes overwritten", blobs, largest(overwrite(100000, 512))},
		one{"the layer's blob, removed", blobs, largest(os.Remove)},
		one{"all blobs, removed", blobs, os.RemoveAll},
	)
}

// TestDamageSweep damages the store of a podrun serve in many ways, and prints a table. In each case,
// exactly one instance of the pod must run again, with its emptyDir, and another pod must be able to
// start.
func TestDamageSweep(t *testing.T) {
	ring.Require(t, 3)
	r := newRig(t)
	r.counter()
	r.write("other.yaml", strings.NewReplacer("name: web", "name: other", "[httpd, -f, -p, \"8080\", -h, /www]", "[sleep, \"600\"]", fmt.Sprintf("hostPort: %d", r.port), "protocol: TCP").Replace(fmt.Sprintf(podText, imageName, r.port)))
	s := r.serve(bundle)
	r.answers()
	for _, d := range damages(20) {
		if only := os.Getenv("PODRUN_DAMAGE_ONLY"); !strings.Contains(d.name, only) {
			continue
		}
		s.stop()
		r.kill()
		r.damage(d.file, d.change)
		began := time.Now()
		s = r.serve(bundle)
		r.until("the runtime is ready", func() bool { code, _ := r.readyz(); return code == 200 })
		r.answers()
		took := time.Since(began).Round(100 * time.Millisecond)
		// containerd may read the damaged part only at this point.
		r.until("another pod runs: "+d.name, func() bool { _, err := r.run(bundle, "apply", "other.yaml"); return err == nil })
		r.until("it is deleted: "+d.name, func() bool { _, err := r.run(bundle, "delete", "other"); return err == nil })
		r.until("the pod runs: "+d.name, func() bool { code, _ := r.readyz(); return code == 200 && r.containersOf() == 1 })
		r.answers()
		if r.starts() == 0 {
			t.Errorf("%s: the emptyDir is lost", d.name)
		}
		outcome := "no effect"
		if replaced, err := embed.ReadReplaced(t.Context(), r.layout); err == nil && replaced != nil {
			outcome = "replaced: " + replaced.Why
		}
		t.Logf("| %s | %s | %s |", d.name, outcome, took)
		if err := os.RemoveAll(r.layout.Replaced()); err != nil {
			t.Fatal(err)
		}
	}
}
