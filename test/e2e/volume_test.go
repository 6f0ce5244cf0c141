package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
	"github.com/podrun/podrun/volume"
)

func config(value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {file: " + value + "}\n"
}

// TestAnUpdateFollowsNoPlantedLink covers CVE-2025-9566: a container replaces the content of its
// ConfigMap volume with links to the host, and the pod is applied again. Only a privileged
// container can write to this volume.
func TestAnUpdateFollowsNoPlantedLink(t *testing.T) {
	for name, plant := range map[string]string{
		"file":    "rm /config/file && ln -s HOST/file /config/file",
		"data":    "rm /config/..data && ln -s HOST /config/..data",
		"content": "f=$(readlink /config/..data)/file; rm /config/$f && ln -s HOST/file /config/$f",
		"tmp":     "ln -s HOST /config/..data_tmp",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			pod := r.pod("pod", `
apiVersion: v1
kind: Pod
metadata: {name: evil}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: IMAGE
      securityContext: {privileged: true}
      command: [sh, -c, 'mount -o remount,rw,bind /config && `+plant+` && echo planted; until grep -q "^new$" /config/file; do sleep 0.05; done; echo sees-new; sleep 600']
      volumeMounts: [{name: config, mountPath: /config}]
  volumes: [{name: config, configMap: {name: config}}]
`)
			r.must("apply", pod, "--configmap", r.write("old-config.yaml", config("old")))
			r.until("evil", "planted")
			out := r.must("apply", pod, "--configmap", r.write("new-config.yaml", config("new")))
			if !strings.Contains(out, "updated: ConfigMap e2e/config") {
				t.Errorf("apply printed %s", out)
			}
			r.until("evil", "sees-new")
			data, err := os.ReadFile(filepath.Join(r.volume("configmap", "config"), "file"))
			if err != nil || string(data) != "new" {
				t.Errorf("the volume has %q, %v", data, err)
			}
		})
	}
}

// swapper is a container that continuously replaces a directory of the volume with a link to the
// host, and vice versa. podrun may create the directory while it is missing, so each step first
// removes the existing file or directory.
const swapper = `{name: swapper, image: IMAGE, RESTART command: [sh, -c, 'mkdir -p /v/dir/sub; echo swapping; while :; do rm -rf /v/dir; ln -s HOST /v/dir; rm -rf /v/dir; mkdir -p /v/dir/sub; done'], volumeMounts: [{name: v, mountPath: /v}]}`

// TestASubpathStaysInsideUnderARace covers CVE-2017-1002101 and CVE-2021-25741: podrun prepares a
// subPath 10,000 times, as at the start of a container, while a container replaces a directory with
// a link.
func TestASubpathStaysInsideUnderARace(t *testing.T) {
	ring.Require(t, 2)
	t.Parallel()
	r := newRig(t)
	pod := r.pod("race", "apiVersion: v1\nkind: Pod\nmetadata: {name: race}\nspec:\n  dnsPolicy: Default\n  terminationGracePeriodSeconds: 0\n  containers:\n    - "+
		strings.Replace(swapper, "RESTART", "", 1)+"\n  volumes: [{name: v, emptyDir: {}}]\n")
	r.must("apply", pod)
	r.until("race", "swapping")
	dir := r.volume("empty-dir", "v")
	target := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(dir))), "volume-subpaths", "v", "test", "0")
	defer unix.Unmount(target, unix.MNT_DETACH)
	bound, refused := 0, 0
	for range 10_000 {
		if err := volume.MountSubpath(t.Context(), dir, "dir", target); err != nil {
			refused++
			continue
		}
		bound++
		if _, err := os.Lstat(target + "/file"); err == nil {
			t.Fatal("the host's directory is bound")
		}
	}
	t.Logf("mounted %d times, refused %d times", bound, refused)
	if bound == 0 || refused == 0 {
		t.Error("one of the two outcomes never occurred: the test did not exercise the race")
	}
}

// TestASubpathStaysInsideDuringStarts covers the same race while pods start: a sidecar replaces the
// directory, and the next container mounts it.
func TestASubpathStaysInsideDuringStarts(t *testing.T) {
	ring.Require(t, 2)
	t.Parallel()
	r := newRig(t)
	pod := r.pod("starts", "apiVersion: v1\nkind: Pod\nmetadata: {name: starts}\nspec:\n  dnsPolicy: Default\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 0\n  initContainers:\n    - "+
		strings.Replace(swapper, "RESTART", "restartPolicy: Always,", 1)+`
  containers:
    - {name: app, image: IMAGE, command: [sh, -c, 'ls /sub; cat /sub/file; echo looked'], volumeMounts: [{name: v, mountPath: /sub, subPath: dir}]}
  volumes: [{name: v, emptyDir: {}}]
`)
	looked, failed := 0, 0
	for range 10 {
		out, err := r.podrun("apply", "--wait=completed", "--timeout", "30s", pod)
		logs, _ := r.podrun("logs", "starts", "-c", "app")
		if strings.Contains(logs, "of the host") {
			t.Fatalf("the container read the host's file:\n%s%s", out, logs)
		}
		if err == nil && strings.Contains(logs, "looked") {
			looked++
		}
		// podrun refuses a link, and the runtime cannot mount a directory that the sidecar has removed.
		if err != nil && (strings.Contains(out, "volumeMounts[0]") || strings.Contains(out, "/volume-subpaths/")) {
			failed++
		}
		// If no container has started within the time limit, apply has removed the pod.
		r.must("delete", "starts", "--grace-period", "0", "--ignore-not-found")
	}
	t.Logf("%d of 10 pods ran, the subPath of %d failed", looked, failed)
	if looked+failed == 0 {
		t.Error("no pod started as far as the subPath: the test did not exercise the race")
	}
}

// TestTeardownNeverCrossesAMount checks that podrun does not delete a host directory with the pod
// if the directory is a volume, or is bind-mounted deep inside a volume.
func TestTeardownNeverCrossesAMount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pod := r.pod("mounts", `
apiVersion: v1
kind: Pod
metadata: {name: mounts}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: IMAGE
      securityContext: {privileged: true}
      command: [sh, -c, 'mkdir -p /v/deep/er && mount --bind /host /v/deep/er && ln -s /host /v/link && echo mounted; sleep 600']
      volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}, {name: host, mountPath: /host}]
  volumes: [{name: v, emptyDir: {}}, {name: host, hostPath: {path: HOST}}]
`)
	if out, err := r.podrun("apply", pod); err != nil {
		// If the host's mounts are private, podrun must report this before any side effect.
		if !strings.Contains(out, "is not a shared mount") || !strings.Contains(out, "volumeMounts[0].mountPropagation") {
			t.Fatal(out)
		}
		t.Log("the host's mounts are private: the pod is refused; the test mounts from outside instead")
		r.bindFromOutside(pod)
		return
	}
	r.until("mounts", "mounted")
	r.must("delete", "mounts")
}

// bindFromOutside creates the same mount that mount propagation would create.
func (r *rig) bindFromOutside(pod string) {
	r.Helper()
	text, err := os.ReadFile(pod)
	if err != nil {
		r.Fatal(err)
	}
	r.write("mounts.yaml", strings.Replace(string(text), ", mountPropagation: Bidirectional", "", 1))
	r.must("apply", pod)
	r.until("mounts", "mounted")
	at := filepath.Join(r.volume("empty-dir", "v"), "outside")
	if err := os.Mkdir(at, 0o755); err != nil {
		r.Fatal(err)
	}
	if err := unix.Mount(r.host, at, "", unix.MS_BIND, ""); err != nil {
		r.Fatal(err)
	}
	r.must("delete", "mounts")
}

// TestOthersCannotReadAPodsDirectory checks that only root can read a pod's directory, and that
// Secrets are never on disk.
func TestOthersCannotReadAPodsDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pod := r.pod("secret", `
apiVersion: v1
kind: Pod
metadata: {name: secret}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: IMAGE, command: [sleep, "600"], env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: p}}}], volumeMounts: [{name: s, mountPath: /s}]}]
  volumes: [{name: s, secret: {secretName: s}}]
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {p: hunter2-0123456789}
`)
	if out := r.must("apply", pod); strings.Contains(out, "hunter2") {
		t.Errorf("apply printed the Secret: %s", out)
	}
	dir := r.volume("secret", "s")
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("the Secret is on a file system of type %#x, %v; want tmpfs", fs.Type, err)
	}
	root := filepath.Join(r.dir, "root")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "hunter2") && info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(path, dir) {
			t.Errorf("%s (%v) has the Secret", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, at := range []string{root, filepath.Join(root, "pods")} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s: %v, %v: other users have access", at, info.Mode(), err)
		}
	}
}
