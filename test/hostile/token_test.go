package hostile

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/test/ring"
)

// TestTokens checks that the credentials of a URL on the command line do not appear in any file or
// message of podrun. Other users can read lock files and the logs of CI jobs.
func TestTokens(t *testing.T) {
	ring.RequireRoot(t)
	base := serveFake(t)
	const host = "https://127.0.0.1:1/pods.yaml" // this host refuses connections
	const remote = "https://us3r:passw0rd@127.0.0.1:1/pods.yaml?token=t0ken#fragm3nt"
	secrets := []string{"us3r", "passw0rd", "t0ken", "fragm3nt"}
	said := func(where, text string) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s: %s", where, secret, text)
			}
		}
	}

	serve := podrun(t, base, "serve", host+"?token=t0ken", "--shutdown-grace-period=0s")
	var talk bytes.Buffer
	serve.Stderr = &talk
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(base, "root", "serve", "lock")
	for begun := time.Now(); ; {
		if text, _ := os.ReadFile(lock); bytes.Contains(text, []byte("podrun serve")) {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("podrun serve takes no lock: %s", &talk)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, args := range [][]string{
		// The error of this command names the process that holds the lock.
		{"serve", host + "?token=t0ken"},
		{"get", "--sources"}, {"get", "--sources", "-o", "json"},
		{"apply", remote}, {"apply", "-f", remote}, {"apply", "--filename=" + remote + "," + remote}, {"run", remote}, {"plan", remote}, {"delete", "-f", remote},
		{"apply", remote, "-o", "json"}, {"serve", remote}, {"serve", "/nowhere/" + "a", host + "?token=t0ken"},
		{"get", remote}, {"logs", remote}, {"exec", remote, "--", "true"}, {"image", "pull", remote}, {"image", "load", remote},
		{remote}, {"apply", "--container-runtime-endpoint=" + remote, remote}, {"config", remote}, {"apply", "--config=" + remote, remote},
	} {
		c := podrun(t, base, args...)
		out, _ := c.CombinedOutput() // most commands fail
		said(strings.Join(args[:1], " ")+": ", string(out))
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("%v: %s", err, &talk)
	}
	said("podrun serve", talk.String())
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		said(path, string(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// podrun returns a command with a runtime and directories in base.
func podrun(t *testing.T, base string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.WaitDelay = time.Second
	c.Env = append(os.Environ(), childEnv+"="+filepath.Join(base, "memory"), "CONTAINER_RUNTIME_ENDPOINT=unix://"+base+"/cri.sock", "PODRUN_CONFIG=", "PODRUN_EVICTION_HARD=", "PODRUN_CGROUPS_PER_QOS=false",
		"PODRUN_ROOT_DIR="+base+"/root", "PODRUN_POD_LOGS_DIR="+base+"/logs", "PODRUN_CONTAINER_LOGS_DIR="+base+"/links", "PODRUN_ALLOW_KUBELET=true")
	return c
}
