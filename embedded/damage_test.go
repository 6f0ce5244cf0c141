package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestClassifyLog classifies what containerd 2.4.2 wrote after its store was damaged
// (testdata/ends/damage-*), or when the environment prevented its start (environment-*). From the stacks of other
// goroutines, the files contain only the beginning of one.
func TestClassifyLog(t *testing.T) {
	want := map[string]string{
		"damage-meta-trunc-1":             "load required plugin io.containerd.grpc.v1.cri: unable to load CRI image service plugin dependency: invalid database",
		"damage-meta-trunc-4096":          "load required plugin io.containerd.grpc.v1.cri: unable to load CRI image service plugin dependency: file size too small 4096",
		"damage-meta-trunc-8192":          "panic: assertion failed: Page expected to be: 65, but self identifies as 0",
		"damage-meta-smash-512-at-28835":  "panic: runtime error: slice bounds out of range [::5558192938] with length 2147483647",
		"damage-meta-smash-512-at-115343": "panic: freepages: failed to get all reachable pages (key[5]=(hex)a5a5a5a5a5a5a5a5a5 on leaf page(28)",
		"damage-snap-trunc-8192":          "panic: invalid freelist page: 3, page type is leaf",
		"damage-snap-smash-page-at-12288": "panic: assertion failed: Page expected to be: 3, but self identifies as 11936128518282651045",
		"damage-live-trunc":               "fatal error: fault [signal SIGBUS: bus error code=0x2 addr=0x7fd5360e1000 pc=0xcc2c80]",
		"environment-immutable-meta":      "",
		"environment-locked":              "",
		"environment-rofs":                "",
	}
	files, err := filepath.Glob("testdata/ends/*.log")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v; want %d", len(files), err, len(want))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".log")
		for _, before := range []string{"", "time=\"2026\" level=warning msg=before\n"} {
			got := classifyLog(before + string(data))
			if want[name] == "" && got != nil || want[name] != "" && (got == nil || !strings.HasPrefix(got.What, want[name])) {
				t.Errorf("%s: %v, want %q", name, got, want[name])
			}
		}
	}
}

func TestClassifyOtherEnds(t *testing.T) {
	const other = "\n\ngoroutine 1 [running]:\ngithub.com/containerd/containerd/v2/core/metadata.x()\n\tdb.go:1\n\ngoroutine 2 [running]:\ngo.etcd.io/bbolt.(*DB).View()\n\tdb.go:1\n"
	const bolt = "\n\ngoroutine 7 [running]:\ngithub.com/containerd/x()\n\tx.go:1\ngo.etcd.io/bbolt.(*DB).View(0x1)\n\tdb.go:1\n"
	for name, c := range map[string]struct {
		log  string
		want bool
	}{
		"nothing":                              {"", false},
		"killed":                               {"time=\"x\" level=warning msg=y error=\"invalid database\"\n", false},
		"a panic elsewhere":                    {"panic: runtime error: invalid memory address" + other, false},
		"a panic in a transaction":             {"panic: runtime error: invalid memory address" + bolt, true},
		"a fault while the disk fails":         {"panic: mmap: input/output error" + bolt, false},
		"no memory":                            {"fatal error: runtime: out of memory" + bolt, false},
		"a stack overflow":                     {"runtime: goroutine stack exceeds 1000000000-byte limit\nfatal error: stack overflow\n\nruntime stack:\nruntime.throw()\n\tx.go:1\n\ngoroutine 7 [running]:\ngo.etcd.io/bbolt.(*DB).freepages(0x1)\n\tdb.go:1\n", true},
		"an earlier crash, then a full disk":   {"panic: x" + bolt + "containerd: write: no space left on device\n", true}, // the record of the daemon excludes earlier crashes
		"a newer format":                       {"containerd: load required plugin io.containerd.grpc.v1.cri: version mismatch\n", false},
		"checksums":                            {"containerd: load required plugin: checksum error\n", true},
		"no space":                             {"containerd: open meta.db: no space left on device\n", false},
		"a failed read of an invalid database": {"containerd: invalid database: read: input/output error\n", false},
		"a missing plugin":                     {"containerd: load required plugin io.containerd.grpc.v1.cri: no plugins registered\n", false},
	} {
		if got := classifyLog(c.log); (got != nil) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := classifyText("invalid database " + strings.Repeat("é\n", 300)); len(got.What) > maxWhat+len("…") || strings.Contains(got.What, "\n") {
		t.Errorf("%d bytes: %q", len(got.What), got.What)
	}
}

func TestGap(t *testing.T) {
	overlay := func(metadata int64, snapshots bool) []snapshotterFiles {
		return []snapshotterFiles{{"overlayfs", metadata, snapshots}, {"native", -1, false}}
	}
	for name, c := range map[string]struct {
		files storeFiles
		want  string
	}{
		"the first start":           {storeFiles{-1, false, false, overlay(-1, false)}, ""},
		"a killed first start":      {storeFiles{0, false, false, overlay(0, false)}, ""},
		"in use":                    {storeFiles{1 << 19, true, false, overlay(1<<16, true)}, ""},
		"no containers":             {storeFiles{1 << 19, false, false, overlay(-1, false)}, ""},
		"emptied":                   {storeFiles{0, true, false, overlay(1<<16, true)}, "meta.db is empty, but there are images or containers"},
		"lost":                      {storeFiles{-1, true, false, overlay(-1, false)}, "meta.db is missing, but there are images or containers"},
		"lost, with only bundles":   {storeFiles{-1, false, true, overlay(-1, false)}, "meta.db is missing, but there are images or containers"},
		"blobs lost":                {storeFiles{1 << 19, false, true, overlay(1<<16, true)}, "all blobs of images are missing, but there are snapshots"},
		"lost, with only snapshots": {storeFiles{-1, false, false, overlay(1<<16, true)}, "meta.db is missing, but there are images or containers"},
		"snapshots lost":            {storeFiles{1 << 19, true, false, overlay(-1, true)}, "metadata.db of the overlayfs snapshotter is missing, but there are snapshots"},
		"snapshots emptied":         {storeFiles{1 << 19, true, false, overlay(0, true)}, "metadata.db of the overlayfs snapshotter is empty, but there are snapshots"},
	} {
		got := c.files.gap()
		if c.want == "" && got != nil || c.want != "" && (got == nil || got.What != c.want) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func TestLayersOf(t *testing.T) {
	mounts := func(options ...string) []*types.Mount { return []*types.Mount{{Type: "overlay", Options: options}} }
	for name, c := range map[string]struct {
		mounts []*types.Mount
		want   []string
	}{
		"two layers":                  {mounts("index=off", "workdir=/s/3/work", "upperdir=/s/3/fs", "lowerdir=/s/2/fs:/s/1/fs"), []string{"/s/2/fs", "/s/1/fs"}},
		"no layers":                   {[]*types.Mount{{Type: "bind", Source: "/s/3/fs", Options: []string{"rbind"}}}, nil},
		"a colon in the store's path": {mounts("lowerdir=/s/a:b/2/fs"), nil},
	} {
		if got := layersOf(c.mounts, "/s"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestCheckRecords(t *testing.T) {
	record := func(kind, spec string) []*containersapi.Container {
		c := &containersapi.Container{ID: "0123456789abcdef", Labels: map[string]string{kindLabel: kind}}
		if spec != "" {
			c.Spec = &anypb.Any{Value: []byte(spec)}
		}
		return []*containersapi.Container{c}
	}
	for name, c := range map[string]struct {
		containers []*containersapi.Container
		want       string
	}{
		"none":              {nil, ""},
		"a container":       {record("container", `{"ociVersion":"1.2.0"}`), ""},
		"of another client": {record("", ""), ""},
		"lost":              {record("sandbox", ""), "the record of container 0123456789abc has no valid specification"},
		"damaged":           {record("container", `{"ociVer`), "the record of container 0123456789abc has no valid specification"},
	} {
		got := checkRecords(c.containers)
		if c.want == "" && got != nil || c.want != "" && (got == nil || got.What != c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestImmovable(t *testing.T) {
	const dir = "/r/runtime/containerd"
	for name, c := range map[string]struct {
		mode   fs.FileMode
		mounts []string
		want   string
	}{
		"a directory":            {fs.ModeDir, nil, ""},
		"a neighbor's mount":     {fs.ModeDir, []string{dir + "2", dir + ".damaged/x"}, ""},
		"a mount of containerd":  {fs.ModeDir, []string{dir + "/tmpmounts/containerd-mount1"}, ""},
		"a link":                 {fs.ModeSymlink, nil, dir + " is a symbolic link"},
		"a disk for the store":   {fs.ModeDir, []string{dir}, dir + " is a mount point"},
		"a disk for the content": {fs.ModeDir, []string{dir + "/content"}, dir + "/content is a mount point"},
	} {
		if got := immovable(dir, c.mode, c.mounts); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestEnds(t *testing.T) {
	at := time.Unix(1, 0)
	damage, first, second := &Damage{What: "x"}, Daemon{PID: 7, StartTime: 1}, Daemon{PID: 7, StartTime: 2}
	one := Ends{}.after(first, damage, "a", at)
	for name, c := range map[string]struct {
		got  Ends
		want int
	}{
		"the first end":             {one, 1},
		"the same daemon again":     {one.after(first, damage, "b", at), 1},
		"the PID was reused":        {one.after(second, damage, "b", at), 2},
		"a start without a process": {one.after(Daemon{}, damage, "b", at).after(first, damage, "c", at).after(Daemon{}, damage, "d", at), 3},
		"another reason":            {one.after(second, nil, "b", at), 0},
	} {
		if c.got.Damaged != c.want {
			t.Errorf("%s: %d, want %d", name, c.got.Damaged, c.want)
		}
	}
}

func TestDamageIsFoundInAnError(t *testing.T) {
	if _, found := errors.AsType[Damage](errors.Join(errors.New("x"), Damage{What: "y"})); !found {
		t.Error("not found")
	}
}
