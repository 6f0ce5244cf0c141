package discover

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

func TestPIDs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  host.PIDs
	}{
		{"the smaller limit", map[string]string{"proc/sys/kernel/pid_max": "4194304\n", "proc/sys/kernel/threads-max": "500\n", "proc/loadavg": "0.20 0.18 0.12 1/80 11206\n"}, host.PIDs{Max: 500, Used: 80}},
		{"more than sysinfo counts", map[string]string{"proc/sys/kernel/pid_max": "4194304\n", "proc/loadavg": "0 0 0 3/70000 1\n"}, host.PIDs{Max: 4194304, Used: 70000}},
		{"no /proc", nil, host.PIDs{}},
		{"an unknown form", map[string]string{"proc/loadavg": "0 0 0 many 1\n"}, host.PIDs{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := (node{tree(t, tc.files)}).pids(); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestFilesystems(t *testing.T) {
	dir := t.TempDir()
	fs, err := nodeFS(filepath.Join(dir, "not", "yet"))
	if err != nil || fs.CapacityBytes <= 0 || fs.AvailableBytes > fs.CapacityBytes || fs.Path != filepath.Join(dir, "not", "yet") {
		t.Errorf("nodeFS: %+v, %v", fs, err)
	}
	at := func(dirs ...string) *runtimeapi.ImageFsInfoResponse {
		out := &runtimeapi.ImageFsInfoResponse{}
		for _, d := range dirs {
			out.ImageFilesystems = append(out.ImageFilesystems, &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: d}})
		}
		return out
	}
	if fs := imageFS(at("", filepath.Join(dir, "unseen"), dir)); fs.Path != dir || fs.CapacityBytes <= 0 {
		t.Errorf("imageFS: %+v", fs)
	}
	for name, info := range map[string]*runtimeapi.ImageFsInfoResponse{"nothing": nil, "unseen": at(filepath.Join(dir, "unseen"))} {
		if fs := imageFS(info); fs != (host.Filesystem{}) {
			t.Errorf("%s: %+v", name, fs)
		}
	}
}

// Conditions that a supervisor has observed must persist until the recorded time.
func TestReadConditions(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		file       string
		want       []corev1.NodeConditionType
		unreadable int
	}{
		"none":                        {"", nil, 0},
		"lost":                        {"empty", nil, 0},
		"two, one over":               {`{"MemoryPressure":"2026-05-01T12:00:01Z","DiskPressure":"2026-05-01T12:00:00Z"}`, []corev1.NodeConditionType{corev1.NodeMemoryPressure}, 0},
		"of a kind that is not known": {`{"NetworkPressure":"2027-05-01T12:00:01Z"}`, nil, 0},
		"corrupt":                     {`{"MemoryPressure":`, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			layout := identity.Layout{RootDir: t.TempDir()}
			if tc.file != "" {
				data := identity.AddSchema(identity.PlainSchema, []byte(tc.file))
				if tc.file == "empty" {
					data = nil
				}
				if err := os.Mkdir(string(layout.Serve()), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := hostfile.Write(layout.Serve().Pressure(), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := podState{machine{ctx: t.Context(), root: "/"}, layout, &unreadable{}}
			if got := m.readConditions(now); !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
			if n := len(m.unreadable.sorted()); n != tc.unreadable {
				t.Errorf("%d unreadable files, want %d", n, tc.unreadable)
			}
		})
	}
}

// podrun can read the facts for evictions without all other facts.
func TestReadPressure(t *testing.T) {
	rt := critest.ForTest(t)
	settings := nodeconfig.Default()
	settings.RootDir = t.TempDir()
	f, err := ReadPressure(t.Context(), rt.Client(), settings)
	memory := f.Capacity[corev1.ResourceMemory]
	if err != nil || f.MemoryAvailable <= 0 || memory.Value() < f.MemoryAvailable || f.NodeFS.CapacityBytes <= 0 || f.NodeFS.Device == 0 || f.PIDs.Max <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
	// podrun must report a shortage of the node even if the runtime does not respond.
	defer rt.Fault("ImageFsInfo", critest.Fault{When: critest.Before})()
	if f, err := ReadPressure(t.Context(), rt.Client(), settings); err != nil || f.MemoryAvailable <= 0 || f.ImageFS.CapacityBytes != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}
