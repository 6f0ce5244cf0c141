package trial

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// workspace is the directory @W@/w, in which the commands run. The repository's examples are next to
// it.
type workspace struct {
	dir string
	env []string
}

// setup contains commands that users ran in another terminal, or between two of the listed
// commands. The key is the ID of the listed command that follows.
var setup = map[string]string{
	"196": "podrun apply -q ../podrun/examples/hello.yaml",
	"219": "podrun apply -q ../podrun/examples/hello.yaml",
	"224": "podrun apply -q ../podrun/examples/hello.yaml",
	"226": "podrun apply -q ../podrun/examples/hello.yaml",
	"239": "podrun apply -q ../podrun/examples/hello.yaml",
	"285": "podrun apply -q ../podrun/examples/hello.yaml",
	"315": "podrun apply -q ../podrun/examples/hello.yaml",
	"412": "podrun delete -A --all --now",
	"480": "podrun apply -q ../podrun/examples/hello.yaml",
	"491": "podrun apply -q ../podrun/examples/hello.yaml",
	"544": "podrun serve man >serve.log 2>&1 & echo $! >serve.pid; sleep 5",
	"563": "kill $(cat serve.pid); sleep 1",
	"566": "podrun delete -A --all --now",
	"571": "cp -r man man.bak",
	"572": "podrun apply -q slow.yaml",
	"574": "podrun apply -q slow.yaml",
	"575": "podrun apply -q slow.yaml",
	"583": "podrun delete -A --all --now",
	"619": "podrun apply -q -f real/redis.yaml",
	"627": "podrun apply -q -f ../podrun/examples/hello.yaml",
	"654": "podrun delete -A --all --now",
	"657": "podrun apply -q ../podrun/examples/hello.yaml",
	"676": "podrun apply -q svc.yaml ../podrun/examples/hello.yaml",
	"677": "podrun apply -q svc.yaml ../podrun/examples/hello.yaml",
	"688": "podrun apply -q ../podrun/examples/hello.yaml",
	"725": "podrun apply -q svc.yaml",
	"731": "podrun delete -A --all --now; podrun apply -q svc.yaml",
	"738": "python3 -m http.server 18223 >/dev/null 2>&1 & echo $! >http.pid; until (echo >/dev/tcp/127.0.0.1/18223) 2>/dev/null; do sleep 0.1; done",
	"744": "kill $(cat http.pid)",
	"754": "podrun apply -q x.yaml",
	"821": "podrun apply -q svc.yaml ../podrun/examples/hello.yaml",
	"831": "podrun delete -A --all --now; podrun apply -q svc.yaml",
	"853": "podrun delete -A --all --now",
	"a25": loadImage,
}

func newWorkspace(t *testing.T) *workspace {
	root := t.TempDir()
	w := &workspace{dir: filepath.Join(root, "w")}
	archive, err := txtar.ParseFile("testdata/work.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		w.write(t, f.Name, bytes.ReplaceAll(f.Data, []byte("REGISTRY"), []byte(os.Getenv("PODRUN_TEST_REGISTRY"))))
	}
	pod, err := os.ReadFile(filepath.Join(w.dir, "m/ok.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "m/crlf.yaml", bytes.ReplaceAll(pod, []byte("\n"), []byte("\r\n")))
	w.write(t, "m/bom.yaml", append([]byte("\xef\xbb\xbf"), pod...))
	w.write(t, "m/bin.yaml", bytes.Repeat([]byte{0, 1, 2, 3}, 100))
	w.write(t, "m/huge.yaml", append(pod, bytes.Repeat([]byte("# filler\n"), 11<<20/9+1)...))
	w.write(t, "m/hugecomment.yaml", append(pod, bytes.Repeat([]byte("# filler\n"), 4<<20/9)...))
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "bin")
	for _, step := range []error{
		os.Symlink(repo, filepath.Join(root, "podrun")),
		os.Mkdir(bin, 0o755),
		os.Symlink(program, filepath.Join(bin, "podrun")),
		os.Symlink(filepath.Join(repo, "examples"), filepath.Join(w.dir, "examples")),
		os.MkdirAll(filepath.Join(w.dir, "full"), 0o755),
		syscall.Mount("tmpfs", filepath.Join(w.dir, "full"), "tmpfs", 0, "size=8k"),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	files := httptest.NewUnstartedServer(http.FileServer(http.Dir(w.dir)))
	files.Start()
	w.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PODRUN_EVICTION_HARD=", "W="+files.URL)
	t.Cleanup(func() {
		files.Close()
		w.run(t, "kill $(cat serve.pid http.pid) 2>/dev/null; podrun delete -A --all --now; podrun gc")
		if err := syscall.Unmount(filepath.Join(w.dir, "full"), 0); err != nil {
			t.Error(err)
		}
	})
	// The trial began without images and pods.
	w.run(t, "podrun delete -A --all --now; podrun image prune --all --force || podrun image prune")
	return w
}

func (w *workspace) write(t *testing.T, name string, data []byte) {
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// setupTimeout limits the time of a setup, which may wait for an object that a previous command
// removed.
const setupTimeout = time.Minute

// loadImage loads the image of the pods.
const loadImage = "podrun image load -q $PODRUN_TEST_ARCHIVES/busybox-1.36.tar"

// before runs the setup of a command. The processes that the setup starts may outlive it.
func (w *workspace) before(t *testing.T, id string) {
	line, ok := setup[id]
	if !ok {
		return
	}
	if strings.Contains(line, "podrun apply") {
		// Previous commands may have removed the image.
		line = loadImage + "; " + line
	}
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(line, "@W@/w", w.dir))
	shell.Dir, shell.Env = w.dir, w.env
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = 5 * time.Second
	if out, err := shell.CombinedOutput(); ctx.Err() != nil {
		t.Errorf("setup of %s: %s: not finished after %s: %s", id, line, setupTimeout, out)
	} else if err != nil {
		t.Logf("setup of %s: %s: %v: %s", id, line, err, out)
	}
}
