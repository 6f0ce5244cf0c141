package volume

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/treetest"
)

// filesOf converts a map of paths to contents to a volume's files.
func filesOf(t *testing.T, content map[string]string) []File {
	t.Helper()
	p := newPayload(nil)
	for at, text := range content {
		if err := p.add(at, nil, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := p.sorted()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// publishTo publishes files to a directory, as Apply does.
func publishTo(t *testing.T, dir string, content map[string]string) error {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return (&publisher{ctx: t.Context(), dir: fd, files: filesOf(t, content)}).publish()
}

// wantFiles reads the files like a container, and checks that no other files exist.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for at, text := range want {
		data, err := os.ReadFile(filepath.Join(dir, at))
		if err != nil || string(data) != text {
			t.Errorf("%s: %q, %v; want %q", at, data, err, text)
		}
	}
	names := map[string]bool{dataName: true}
	for at := range want {
		top, _, _ := strings.Cut(at, "/")
		names[top] = true
	}
	timed := 0
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		switch {
		case timedName().MatchString(e.Name()):
			timed++
		case !names[e.Name()]:
			t.Errorf("%s is left", e.Name())
		}
		delete(names, e.Name())
	}
	if timed != 1 || len(names) > 0 {
		t.Errorf("%d timed directories, want 1; missing %v", timed, slices.Collect(maps.Keys(names)))
	}
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	steps := []map[string]string{
		{"a": "1", "deep/er/b": "2", "deep/c": "3"},
		{"a": "1 changed", "deep/er/b": "2", "deep/c": "3"},
		{"a": "1 changed", "deep/c": "3", "new": ""},
		{"a/now/a/directory": "x"},
		{"a": "a file again"},
		{},
		{"a": "1"},
	}
	before := ""
	for i, content := range steps {
		// The second call must not change the files.
		for range 2 {
			if err := publishTo(t, dir, content); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			wantFiles(t, dir, content)
			now, err := os.Readlink(filepath.Join(dir, dataName))
			if err != nil {
				t.Fatal(err)
			}
			if _, again := steps[i]["again"]; again {
				t.Fatal("a file of the test's own")
			}
			if before == now {
				continue
			}
			before = now
		}
		if again, _ := os.Readlink(filepath.Join(dir, dataName)); again != before {
			t.Errorf("step %d: unchanged content was written again", i)
		}
	}
}

// TestPublishAgainWritesNothing checks that the inode does not change if the content has not
// changed.
func TestPublishAgainWritesNothing(t *testing.T) {
	dir := t.TempDir()
	content := map[string]string{"a": "1", "b/c": "2"}
	inode := func() string {
		info, err := os.Stat(dir + "/a")
		if err != nil {
			t.Fatal(err)
		}
		link, _ := os.Readlink(dir + "/..data")
		return fmt.Sprint(info.Sys().(*unixStat).Ino, link)
	}
	if err := publishTo(t, dir, content); err != nil {
		t.Fatal(err)
	}
	first := inode()
	if err := publishTo(t, dir, content); err != nil {
		t.Fatal(err)
	}
	if again := inode(); again != first {
		t.Errorf("%s, then %s", first, again)
	}
}

// TestPublishIntoAPlantedVolume (CVE-2025-9566) checks that files of the host do not change,
// regardless of the files that a container places in its volume, and that the volume is correct
// afterwards.
func TestPublishIntoAPlantedVolume(t *testing.T) {
	old, changed := map[string]string{"a": "1", "d/b": "2"}, map[string]string{"a": "10", "d/b": "20"}
	for name, plant := range map[string]func(dir, host string){
		"a file's link leads to the host": func(dir, host string) { os.Remove(dir + "/a"); os.Symlink(host+"/file", dir+"/a") },
		"a directory's link leads there":  func(dir, host string) { os.Remove(dir + "/d"); os.Symlink(host, dir+"/d") },
		"..data leads there":              func(dir, host string) { os.Remove(dir + "/..data"); os.Symlink(host, dir+"/..data") },
		"..data is a directory":           func(dir, host string) { os.Remove(dir + "/..data"); os.MkdirAll(dir+"/..data/x/y", 0o755) },
		"..data_tmp leads there":          func(dir, host string) { os.Symlink(host+"/file", dir+"/..data_tmp") },
		"..data_tmp is a directory":       func(dir, host string) { os.MkdirAll(dir+"/..data_tmp/x", 0o755) },
		"the file itself is a link": func(dir, host string) {
			real, _ := filepath.EvalSymlinks(dir + "/a")
			os.Remove(real)
			os.Symlink(host+"/file", real)
		},
		"the file is a pipe": func(dir, _ string) {
			real, _ := filepath.EvalSymlinks(dir + "/a")
			os.Remove(real)
			unix.Mkfifo(real, 0o644)
		},
		"the timed directory is a link": func(dir, host string) {
			real, _ := os.Readlink(dir + "/..data")
			os.Rename(dir+"/"+real, dir+"/..moved")
			os.Symlink(host, dir+"/"+real)
		},
		"a directory inside is a link": func(dir, host string) {
			real, _ := filepath.EvalSymlinks(dir + "/d")
			os.RemoveAll(real)
			os.Symlink(host, real)
		},
		"a name is a directory": func(dir, _ string) { os.Remove(dir + "/a"); os.MkdirAll(dir+"/a/x", 0o755) },
	} {
		for which, content := range map[string]map[string]string{"changed": changed, "unchanged": old} {
			t.Run(name+", "+which, func(t *testing.T) {
				dir, host := t.TempDir(), t.TempDir()
				treetest.Write(t, host+"/file")
				treetest.Write(t, host+"/b")
				if err := publishTo(t, dir, old); err != nil {
					t.Fatal(err)
				}
				plant(dir, host)
				if err := publishTo(t, dir, content); err != nil {
					t.Fatal(err)
				}
				// The container itself created ..moved, so this directory may remain.
				os.RemoveAll(dir + "/..moved")
				wantFiles(t, dir, content)
				wantIntact(t, host+"/file")
				wantIntact(t, host+"/b")
				if entries, _ := os.ReadDir(host); len(entries) != 2 {
					t.Errorf("the host's directory changed: %v", entries)
				}
			})
		}
	}
}

// TestFilesAreTheKubelets covers the files of kubelet-golden 22-downward, and of a Secret and a
// ConfigMap.
func TestFilesAreTheKubelets(t *testing.T) {
	plan := livePod(t, `
securityContext: {fsGroup: 777, runAsUser: 1000}
containers:
- {name: app, resources: {limits: {cpu: 500m, memory: 64Mi}}, volumeMounts: [{name: info, mountPath: /etc/podinfo}, {name: other, mountPath: /etc/podinfo/sub/dir}]}
volumes:
- name: info
  downwardAPI:
    items:
    - {path: name, fieldRef: {fieldPath: metadata.name}}
    - {path: deep/name, fieldRef: {fieldPath: metadata.name}, mode: 0400}
    - {path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu, divisor: 1m}}
`)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range tree(t, plan.Dir) {
		if strings.Contains(line, "volumes/") || strings.Contains(line, "plugins/") {
			timed := filepath.Base(mustReadlink(t, plan.Volumes[0].HostPath+"/..data"))
			got = append(got, strings.ReplaceAll(line, timed, "..TIME"))
		}
	}
	want := []string{
		"drwxr-xr-x 0:0 volumes/kubernetes.io~downward-api",
		"dgtrwxrwxrwx 0:777 volumes/kubernetes.io~downward-api/info",
		"dgrwxr-xr-x 0:777 volumes/kubernetes.io~downward-api/info/..TIME",
		"-rw-r--r-- 0:777 volumes/kubernetes.io~downward-api/info/..TIME/cpu",
		"dgrwxr-xr-x 0:777 volumes/kubernetes.io~downward-api/info/..TIME/deep",
		"-r--r----- 0:777 volumes/kubernetes.io~downward-api/info/..TIME/deep/name",
		"-rw-r--r-- 0:777 volumes/kubernetes.io~downward-api/info/..TIME/name",
		"Lrwxrwxrwx 0:777 volumes/kubernetes.io~downward-api/info/..data",
		"Lrwxrwxrwx 0:777 volumes/kubernetes.io~downward-api/info/cpu",
		"Lrwxrwxrwx 0:777 volumes/kubernetes.io~downward-api/info/deep",
		"Lrwxrwxrwx 0:777 volumes/kubernetes.io~downward-api/info/name",
		"drwxr-xr-x 0:0 volumes/kubernetes.io~downward-api/info/sub",
		"drwxr-xr-x 0:0 volumes/kubernetes.io~downward-api/info/sub/dir",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func mustReadlink(t *testing.T, at string) string {
	t.Helper()
	to, err := os.Readlink(at)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// BenchmarkFiftyVolumes measures the delay of a pod by the files of 50 ConfigMaps and Secrets with
// 100 keys each.
func BenchmarkFiftyVolumes(b *testing.B) {
	pod := &corev1.Pod{}
	in := input(pod)
	in.ConfigMaps, in.Secrets = map[string]*corev1.ConfigMap{}, map[string]*corev1.Secret{}
	for i := range 25 {
		name := fmt.Sprint("o", i)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
		for k := range 100 {
			cm.Data[fmt.Sprint("key", k)] = strings.Repeat("v", 50)
			secret.Data[fmt.Sprint("key", k)] = []byte(strings.Repeat("v", 50))
		}
		in.ConfigMaps[name], in.Secrets[name] = cm, secret
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: "c" + name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
			corev1.Volume{Name: "s" + name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}})
	}
	b.ReportAllocs()
	var used time.Duration
	for b.Loop() {
		in.Layout.RootDir = b.TempDir()
		before := cpuTime(b)
		plan, problems := New(in)
		if len(problems) > 0 {
			b.Fatal(problems)
		}
		if err := Apply(b.Context(), plan); err != nil {
			b.Fatal(err)
		}
		used += cpuTime(b) - before
		b.StopTimer()
		if err := Remove(b.Context(), plan.Layout, plan.ID.UID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	// CPU time is reported because, unlike elapsed time, it is comparable on a busy machine.
	b.ReportMetric(float64(used)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
