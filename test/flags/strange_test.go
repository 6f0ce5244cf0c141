package flags

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/ring"
)

// strange are the names of directories, each with the name of a neighbor that the name matches if it is
// used as a pattern.
var strange = []struct{ name, neighbor string }{
	{"c[ab]", "ca"}, {"c[a", "ca"}, {"c]", "c"}, {"c*", "ca"}, {"c?", "ca"}, {"c a", "c"}, {"c%2fa%s", "c"}, {"c\na", "c"}, {"c#a;b", "c"}, {`c\[a`, "c[a"},
	{"c" + strings.Repeat("a", 199), "c"},
}

// pathSettings are the settings that are paths of directories.
var pathSettings = []string{"root-dir", "pod-logs-dir", "container-logs-dir", "pvc-dir", "manifests"}

// claimPod has a claim, a volume in memory, which podrun mounts, and files that podrun writes.
const claimPod = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: settings, configMap: {name: settings}}
  containers:
  - name: stays
    image: registry.example/app:1
    volumeMounts: [{name: data, mountPath: /data, subPath: below}, {name: memory, mountPath: /memory}, {name: settings, mountPath: /settings}]
`

// strangeHost is a host whose directories have strange names.
type strangeHost struct {
	*host
	dirs      map[string]string // by the setting
	neighbors []string
}

// newStrangeHost makes a host. The directories of the given settings have the strange name; beside each of
// them is a neighbor with files that look like podrun's.
func newStrangeHost(name, neighbor string, settings []string) (*strangeHost, error) {
	h, err := newHost(map[string]string{"config.yaml": files["config.yaml"]})
	if err != nil {
		return nil, err
	}
	s := &strangeHost{host: h, dirs: map[string]string{}}
	for _, setting := range pathSettings {
		dir := "plain"
		if slices.Contains(settings, setting) {
			dir = name
		}
		s.dirs[setting] = h.path(filepath.Join(setting, dir))
		s.neighbors = append(s.neighbors, h.path(filepath.Join(setting, neighbor)))
	}
	h.layout = identity.Layout{RootDir: s.dirs["root-dir"], PodLogsDir: s.dirs["pod-logs-dir"], ContainerLogsDir: s.dirs["container-logs-dir"]}
	for _, dir := range s.neighbors {
		for _, file := range []string{"pods/1/pod.yaml", ".deleted-1/file", "flags_data/below/file", "flags_web_1/stays/0.log", "pod.yaml"} {
			path := filepath.Join(dir, file)
			err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
		}
		err = errors.Join(err, s.oldLink(dir))
	}
	manifest := filepath.Join(s.dirs["manifests"], "pod.yaml")
	return s, errors.Join(err, os.MkdirAll(filepath.Dir(manifest), 0o755), os.WriteFile(manifest, []byte(claimPod), 0o644), s.oldLink(s.layout.ContainerLogsDir))
}

// oldLink makes a link to a log that no longer exists. It is so old that gc removes it.
func (s *strangeHost) oldLink(dir string) error {
	link := filepath.Join(dir, "web_flags_stays-1.log")
	old := unix.NsecToTimeval(time.Now().Add(-time.Hour).UnixNano())
	return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(filepath.Join(s.layout.PodLogsDir, "flags_web_1/stays/0.log"), link),
		unix.Lutimes(link, []unix.Timeval{old, old}))
}

// tree lists the files below the neighbors.
func (s *strangeHost) tree() (files []string, err error) {
	for _, dir := range s.neighbors {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			files = append(files, path)
			return err
		}))
	}
	return files, err
}

// podrun runs a command that must succeed.
func (s *strangeHost) podrun(ctx context.Context, args ...string) (string, error) {
	got := s.call(ctx, false, append(args, "--pvc-dir="+s.dirs["pvc-dir"]))
	if got.code != 0 || got.problem != "" {
		return "", fmt.Errorf("podrun %s: %s", strings.Join(args, " "), got)
	}
	return got.stdout, nil
}

// use applies the pod, uses it, deletes it, and collects garbage.
func (s *strangeHost) use(ctx context.Context) error {
	trace := s.dirs["manifests"] + ".json"
	for _, step := range []struct {
		args []string
		want string // in the output
	}{
		{[]string{"apply", "-o", "name", s.dirs["manifests"]}, "pod/web\n"},
		{[]string{"apply", "-f", s.dirs["manifests"]}, "pod/web unchanged\n"},
		{[]string{"get", "-o", "name", "--trace=json:" + trace}, "pod/web\n"},
		{[]string{"logs", "web"}, "hello\n"},
		{[]string{"delete", "-o", "name", "--delete-volumes", "web"}, "pod/web\n"},
		{[]string{"gc"}, "web_flags_stays-1.log"},
	} {
		out, err := s.podrun(ctx, step.args...)
		if err != nil {
			return err
		}
		if !strings.Contains(out, step.want) {
			return fmt.Errorf("podrun %s: %q, want %q", strings.Join(step.args, " "), out, step.want)
		}
	}
	_, err := os.Stat(trace)
	return err
}

// left lists what the pod has left.
func (s *strangeHost) left() []string {
	left := s.rt.Leaked()
	for _, dir := range []string{s.layout.PodsDir(), s.layout.Owners(), s.layout.Reservations(), s.layout.Claims(), s.layout.PodLogsDir, s.layout.ContainerLogsDir, s.dirs["pvc-dir"]} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, err.Error())
		}
		for _, e := range entries {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, s.dir+"/") {
			left = append(left, line)
		}
	}
	return left
}

// tryStrange uses a host with strange names, and checks what is left.
func tryStrange(ctx context.Context, name, neighbor string, settings []string, use func(context.Context, *strangeHost) error) (err error) {
	s, err := newStrangeHost(name, neighbor, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before, err := s.tree()
	if err != nil {
		return err
	}
	if err := use(ctx, s); err != nil {
		return err
	}
	after, err := s.tree()
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("the files of neighbors were %q, are %q", before, after)
	}
	if left := s.left(); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("left: %q", left))
	}
	return err
}

// TestStrangeSettings runs commands with directories whose names contain characters that have a meaning in
// patterns, URLs, formats or /proc/self/mountinfo. Nothing must be left, and nothing of a neighbor changed.
func TestStrangeSettings(t *testing.T) {
	ring.RequireRoot(t)
	sets := [][]string{pathSettings}
	if ring.Is(2) {
		for _, setting := range pathSettings {
			sets = append(sets, []string{setting})
		}
	}
	use := func(ctx context.Context, s *strangeHost) error { return s.use(ctx) }
	for _, settings := range sets {
		t.Run(strings.Join(settings, ","), func(t *testing.T) {
			var all sync.WaitGroup
			for _, n := range strange {
				all.Go(func() {
					if err := tryStrange(t.Context(), n.name, n.neighbor, settings, use); err != nil {
						t.Errorf("%q: %v", n.name, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestStrangeManifestDirectories runs podrun serve with manifest directories with strange names until it has
// started the pod.
func TestStrangeManifestDirectories(t *testing.T) {
	ring.RequireRoot(t)
	use := func(ctx context.Context, s *strangeHost) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if got := s.serve(ctx, cancel); got.code != 0 {
			return fmt.Errorf("podrun serve: %s", got)
		}
		if out, err := s.podrun(context.WithoutCancel(ctx), "get", "-o", "name"); err != nil || out != "pod/web\n" {
			return fmt.Errorf("podrun get: %q, %v", out, err)
		}
		_, err := s.podrun(context.WithoutCancel(ctx), "delete", "--delete-volumes", "web")
		return errors.Join(err, os.Remove(filepath.Join(s.layout.ContainerLogsDir, "web_flags_stays-1.log")))
	}
	var all sync.WaitGroup
	for _, n := range strange {
		all.Go(func() {
			if err := tryStrange(t.Context(), n.name, n.neighbor, pathSettings, use); err != nil {
				t.Errorf("%q: %v", n.name, err)
			}
		})
	}
	all.Wait()
}

// serve runs podrun serve until it reports that the container of the pod has started.
func (s *strangeHost) serve(ctx context.Context, cancel context.CancelCauseFunc) result {
	started := func(text string) {
		if strings.Contains(text, "Started") {
			cancel(exit.SignalError{Signal: syscall.SIGINT})
		}
	}
	return s.callUntil(ctx, started, []string{"serve", "--pvc-dir=" + s.dirs["pvc-dir"], s.dirs["manifests"]})
}
