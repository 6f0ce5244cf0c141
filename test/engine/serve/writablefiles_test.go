package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestFilesThatContainersWriteCount covers a container that writes to the files that podrun and the
// runtime mount into it. All of them must count as usage, and an eviction must free as many as
// possible without losing the termination message (class of CVE-2020-8557).
func TestFilesThatContainersWriteCount(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Files.Write(rig.File("db"), rig.PodText("db", "Always", "containers: [{name: db, image: registry.example/db:1, resources: {limits: {ephemeral-storage: 4Mi}}}]"))
		time.Sleep(5 * time.Second)
		db := s.Running("db")
		hosts, log := rig.MountedAt(t, db, "/etc/hosts"), rig.MountedAt(t, db, "/dev/termination-log")
		sandbox := s.Runtime.Sandboxes()[0].ID
		if err := os.Mkdir(filepath.Join(state, sandbox), 0o755); err != nil {
			t.Fatal(err)
		}
		use := func() int64 {
			pod := s.Pod("db")
			return supervisor.NewStats(s.Engine()).Pods(t.Context(), []*corev1.Pod{pod})[string(pod.UID)].Files.Bytes
		}
		message := strings.Repeat("x", 4090) + "ended\n"
		for _, path := range []string{hosts, log, filepath.Join(state, sandbox, "resolv.conf"), filepath.Join(state, sandbox, "hostname")} {
			before := use()
			if err := os.WriteFile(path, append(bytes.Repeat([]byte{'y'}, 2<<20), message...), 0o666); err != nil {
				t.Fatal(err)
			}
			if grew := use() - before; grew < 2<<20 || grew > 3<<20 {
				t.Errorf("%s grew by 2 MiB, the usage by %d", path, grew)
			}
		}
		s.Configure = measureThisMachine
		s.Restart()
		time.Sleep(time.Minute + examine)
		wantEvicted(s.Supervised, "db", "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi.")
		if info, err := os.Stat(hosts); err != nil || info.Size() > 0 {
			t.Errorf("the hosts file of the evicted pod: %v, %v", info, err)
		}
		if text, err := os.ReadFile(log); err != nil || string(text) != message {
			t.Errorf("the termination log of the evicted pod: %d bytes, %v", len(text), err)
		}
		if ended := statusOf(s.Supervised, "db").ContainerStatuses[0].State.Terminated; ended == nil || ended.Message != message {
			t.Errorf("the evicted container ended with %+v", ended)
		}
	}, critest.StateDir(state))
}
