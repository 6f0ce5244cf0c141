package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/test/ring"
)

// umaskPod is a pod that prints, as a user other than root, the modes of files and directories that
// podrun creates for containers.
const umaskPod = `apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: modes, labels: {a: b}}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 1000}
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: config, projected: {sources: [{configMap: {name: config, items: [{key: key, path: x/y/key}]}}, {secret: {name: secret}}]}}
  - {name: downward, downwardAPI: {items: [{path: a/labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: dir, hostPath: {path: DIR/made/for/pods, type: DirectoryOrCreate}}
  - {name: file, hostPath: {path: DIR/made/file, type: FileOrCreate}}
  - {name: claim, persistentVolumeClaim: {claimName: data}}
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, 'umask; cd /v && cat config/x/y/key config/key downward/a/labels /etc/hosts /etc/resolv.conf >/dev/null && echo ok >/dev/termination-log &&
      find . sub deep /etc/hosts /etc/hostname /etc/resolv.conf /dev/termination-log -exec stat -c "%a %n" {} +']
    volumeMounts:
    - {name: empty, mountPath: /v/empty}
    - {name: memory, mountPath: /v/memory}
    - {name: config, mountPath: /v/config}
    - {name: downward, mountPath: /v/downward}
    - {name: dir, mountPath: /v/dir}
    - {name: dir, mountPath: /v/deep, subPath: one/two}
    - {name: empty, mountPath: /v/sub, subPath: one/two}
    - {name: file, mountPath: /v/file}
    - {name: claim, mountPath: /v/claim}
`

// TestUmask covers two umasks: podrun.service has 0077, and commands usually have 0022. In both
// cases, containers, log collectors and users of the host's directories must find the same
// modes.
func TestUmask(t *testing.T) {
	ring.Require(t, 2)
	random := regexp.MustCompile(`\.\.2[0-9_.]+|[0-9a-f]{32,}`)
	seen := map[int]string{}
	for _, mask := range []int{0o022, 0o077} {
		r := newRig(t)
		old := syscall.Umask(mask)
		out, err := r.podrun("apply", "--pvc-dir="+r.dir+"/made/claims", "--wait=completed", "-f", r.pod("pod", strings.ReplaceAll(umaskPod, "DIR", r.dir)))
		syscall.Umask(old)
		if err != nil {
			logs, _ := r.podrun("logs", "modes")
			t.Fatalf("umask %04o: %v\n%s\n%s", mask, err, out, logs)
		}
		text := r.must("logs", "modes")
		for _, dir := range []string{"made", "logs", "containers"} {
			err := filepath.WalkDir(filepath.Join(r.dir, dir), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := os.Lstat(path)
				if err == nil {
					text += info.Mode().String() + " " + strings.TrimPrefix(path, r.dir) + "\n"
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		r.must("delete", "modes")
		seen[mask] = random.ReplaceAllString(text, "RANDOM")
	}
	if diff := cmp.Diff(seen[0o022], seen[0o077]); diff != "" {
		t.Errorf("umask 0022 (-), 0077 (+):\n%s", diff)
	}
}
