package discover

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
)

// F2: if a state file of a pod is corrupt, podrun must record that, and must still read the
// host.
func TestCorruptStateStopsNoReading(t *testing.T) {
	s := nodeconfig.Default()
	s.RootDir = t.TempDir()
	layout := s.Layout()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	device := strings.Replace(jsonCheckpoint, `"cpu":"1",`, `"cpu":"1","example.com/gpu":"1",`, 2)
	write(layout.Pod("good").Checkpoint(), jsonCheckpoint)
	write(layout.Pod("bad").Checkpoint(), "# podrun pod ns/bad\n{")
	write(layout.Pod("gpu").Checkpoint(), device)
	write(layout.Pod("gpu").Devices(), "[]")
	write(layout.Pod("bad").UserNS(), "{")
	if err := unix.Mkfifo(filepath.Join(layout.PodsDir(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(layout.Reservations(), "1"), "null")
	room, err := os.Open(filepath.Join(layout.Reservations(), "1"))
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	if err := unix.Flock(int(room.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	facts, err := Read(t.Context(), nil, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, p := range facts.Pods {
		broken := ""
		if p.Broken != "" {
			broken = " broken"
		}
		seen = append(seen, p.Namespace+"/"+p.Name+broken)
	}
	if got, want := strings.Join(seen, ", "), "ci/job, ci/job, ns/bad broken"; got != want {
		t.Errorf("pods are %s, want %s", got, want)
	}
	for i, word := range []string{"a reservation of resources", "the devices of a pod", "the host IDs of a pod"} {
		if len(facts.Unreadable) != 3 || !strings.HasPrefix(facts.Unreadable[i], word) {
			t.Fatalf("unreadable are %q", facts.Unreadable)
		}
	}
	if first, has := facts.UserNS["bad"]; !has || first != 0 {
		t.Errorf("host IDs: %v", facts.UserNS)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, nil, s, Options{}); err == nil {
		t.Error("files that were not read in time count as corrupt")
	}
}

// If a range is corrupt on disk, podrun must query the runtime for it.
func TestCorruptUserNSIsRecovered(t *testing.T) {
	client := critest.ForTest(t).Client()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "ns", Name: "web", Uid: "runs"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{
			UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}}}}}},
	}
	id, err := client.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	ready := runtimeapi.PodSandboxState_SANDBOX_READY
	boxes := []*runtimeapi.PodSandbox{
		{Id: id, Metadata: config.Metadata, State: ready},
		{Id: "none", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "unknown"}, State: ready},
	}
	held := map[string]uint32{"known": 65536, "runs": 0, "no sandbox": 0, "unknown": 0}
	podState{machine: machine{ctx: t.Context()}}.recoverUserNS(client, held, boxes)
	if want := map[string]uint32{"known": 65536, "runs": 131072, "unknown": 0}; !maps.Equal(held, want) {
		t.Errorf("held are %v, want %v", held, want)
	}
	held = map[string]uint32{"runs": 0}
	podState{machine: machine{ctx: t.Context()}}.recoverUserNS(nil, held, nil)
	if first, has := held["runs"]; !has || first != 0 {
		t.Errorf("without a runtime: %v", held)
	}
}

func TestStoredPod(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir(), PodLogsDir: t.TempDir()}
	for uid, head := range map[string]string{
		"good": "# podrun pod ns/web\n{}", "foreign": "# a comment\n{}", "empty": "", "cut": "# podrun pod ns/we",
		"path": "# podrun pod ../../etc/passwd\n", "logged": "", "dots": "# podrun pod ../..\n",
	} {
		if err := os.MkdirAll(string(layout.Pod(uid)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(layout.Pod(uid).Checkpoint(), []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(layout.Logs(identity.Pod{Namespace: "ns", Name: "of-logs", UID: "logged"}), 0o750); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]string{
		"good": "ns/web", "foreign": "/foreign", "empty": "/empty", "cut": "/cut", "path": "/path", "dots": "/dots", "logged": "ns/of-logs",
	} {
		if id, found := StoredPod(t.Context(), layout, uid); !found || id.String() != want || id.UID != uid {
			t.Errorf("%s: %v, %v; want %s", uid, id, found, want)
		}
	}
	if id, found := StoredPod(t.Context(), layout, "none"); found {
		t.Errorf("found %v", id)
	}
}
