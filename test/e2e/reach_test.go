package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// victim is a pod with a Secret as a file and as a variable, and a volume.
const victim = `apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {key: secret-of-victim}
---
apiVersion: v1
kind: Pod
metadata: {name: victim}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    image: IMAGE
    command: [sleep, "3599"]
    env: [{name: KEY, valueFrom: {secretKeyRef: {name: s, key: key}}}]
    volumeMounts: [{name: s, mountPath: /s}, {name: e, mountPath: /e}]
  volumes: [{name: s, secret: {secretName: s}}, {name: e, emptyDir: {}}]
`

// reach is an action in a container, which is a row in the tables of docs/security.md.
type reach struct {
	name  string
	spec  string // fields of the pod's spec, in addition to the container
	mount string // the host path that the pod mounts as its volume
	write bool   // true if the volume is writable
	with  string // securityContext of the container
	does  string // a shell script; /v is the volume, /h has the programs of the host
	want  string // a regular expression for the output of the script
}

// TestReach runs, for each row, a container on a host with another pod (victim), and checks its
// access.
func TestReach(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	root, dir := r.dir+"/root", r.dir+"/manifests"
	socket := strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://")
	// This directory has the same modes as /run/podrun-api.
	api := r.dir + "/api"
	for _, d := range []string{dir, api, api + "/x"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("manifests/secret.yaml", "key: secret\n")
	status, err := net.Listen("unix", api+"/x/readonly.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	r.must("apply", r.pod("victim", victim))
	r.must("apply", "--secrets=memory", r.pod("memory", strings.Replace(victim, "name: victim", "name: memory", 1)))
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			_, _ = c.Write([]byte("service of the host\n"))
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	connect := "nc -w 60 127.0.0.1 " + port + " </dev/null || echo refused"
	find := `pid=; for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^sleep 3599 ' && pid=$p; done; `
	for _, row := range []reach{
		{name: "nothing", does: "ls -d " + root + " /run/podrun " + socket + " 2>/dev/null; " + find + "echo process=$pid; " + connect, want: "process=\n(.*\n)?refused\n"},
		{name: "root read-only", mount: root, does: "cat /v/pods/*/volumes/*secret/s/key | grep -o secret-of-victim | wc -l; grep -c c2VjcmV0LW9mLXZpY3RpbQ /v/pods/*/pod.yaml; (echo x >/v/x) 2>/dev/null || echo cannot write",
			want: "2\n(.*:[01]\n)*.*:1\n(.*:[01]\n)*cannot write\n"},
		{name: "root read-write", mount: root, write: true, does: "for d in /v/pods/*/volumes/*empty-dir/e; do echo changed >$d/file && echo written; done", want: "written\nwritten\n"},
		{name: "run read-only", mount: "/run/podrun", does: "grep -rqE 'secret-of-victim|c2VjcmV0LW9mLXZpY3RpbQ' /v/secrets && echo found", want: "found\n"},
		{name: "runtime socket read-only", mount: filepath.Dir(socket), does: "chroot /h /podrun version --runtime unix:///v/" + filepath.Base(socket), want: "(?s).*(containerd|cri-o).*"},
		{name: "run read-write", mount: "/run/podrun", write: true, does: "f=$(find /v/secrets -type f | head -n 1); test -w $f && echo can change Secrets; test -w /v/serve && echo can remove sockets", want: "can change Secrets\n(can remove sockets\n)?"},
		{name: "api read-write", mount: api, write: true, does: "rm /v/x/readonly.sock && echo removed", want: "removed\n"},
		{name: "manifests read-only", mount: dir, does: "cat /v/secret.yaml; (echo x >/v/x) 2>/dev/null || echo cannot write", want: "key: secret\ncannot write\n"},
		{name: "manifests read-write", mount: dir, write: true,
			does: "echo '{apiVersion: v1, kind: Pod, metadata: {name: planted}, spec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}}' >/v/p.yaml && echo written", want: "written\n"},
		{name: "hostNetwork", spec: "hostNetwork: true", does: connect, want: "service of the host\n"},
		{name: "hostPID", spec: "hostPID: true", does: find + `tr '\0' '\n' <$pid/environ | grep ^KEY=; cat $pid/root/s/key; echo; kill -0 ${pid#/proc/} && echo can kill`,
			want: "KEY=secret-of-victim\nsecret-of-victim\ncan kill\n"},
		{name: "privileged", with: "{privileged: true}", does: "grep CapBnd /proc/self/status; mkdir /m && mount -t tmpfs none /m && echo mounted; test -w /proc/sys/kernel/domainname && echo kernel settings", want: "CapBnd:\t[0-9a-f]+\nmounted\nkernel settings\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := "reach-" + strings.ReplaceAll(strings.ToLower(row.name), " ", "-")
			out, said, err := r.run("run", "--quiet", r.pod(name, row.manifest(name)))
			if err != nil || !regexp.MustCompile("^(?:"+row.want+")$").MatchString(out) {
				t.Errorf("it printed %q, want %q; %v\n%s", out, row.want, err, said)
			}
		})
	}
	if out := r.must("exec", "victim", "--", "cat", "/e/file"); out != "changed\n" {
		t.Errorf("the victim's volume has %q", out)
	}
	if err := os.Remove(dir + "/secret.yaml"); err != nil {
		t.Fatal(err)
	}
	if out, err := r.podrun("plan", "--full", dir); err != nil || !strings.Contains(out, "privileged: true") {
		t.Errorf("the planted manifest: %v\n%s", err, out)
	}
}

// manifest returns the pod for a row.
func (row reach) manifest(name string) string {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  dnsPolicy: Default\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 0\n"
	if row.spec != "" {
		text += "  " + row.spec + "\n"
	}
	text += "  containers:\n  - name: app\n    image: IMAGE\n    command:\n    - sh\n    - -c\n    - |\n      " + row.does + "\n"
	if row.with != "" {
		text += "    securityContext: " + row.with + "\n"
	}
	if row.mount == "" {
		return text
	}
	readOnly := "true"
	if row.write {
		readOnly = "false"
	}
	mounts, volumes := hostPrograms()
	return text + "    volumeMounts:\n    - {name: v, mountPath: /v, readOnly: " + readOnly + "}\n    - {name: v, mountPath: /h/v, readOnly: " + readOnly + "}\n    - {name: p, mountPath: /h/podrun}\n" + mounts +
		"  volumes:\n  - {name: v, hostPath: {path: " + row.mount + "}}\n  - {name: p, hostPath: {path: " + program + "}}\n" + volumes
}

// hostPrograms returns volume mounts and volumes that provide the host's file system at /h.
// Containers can chroot to it to run the host's programs.
func hostPrograms() (mounts, volumes string) {
	for i, d := range []string{"/usr", "/lib", "/lib64", "/bin"} {
		if _, err := os.Stat(d); err == nil {
			v := "d" + string(rune('0'+i))
			mounts += "    - {name: " + v + ", mountPath: /h" + d + ", readOnly: true}\n"
			volumes += "  - {name: " + v + ", hostPath: {path: " + d + "}}\n"
		}
	}
	return mounts, volumes
}

// TestReachLocks covers a container that has the root directory as a read-only volume: the
// container can acquire podrun's locks, and a command that needs one waits until its timeout.
func TestReachLocks(t *testing.T) {
	ring.Require(t, 2)
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("flock is not installed")
	}
	r := newRig(t)
	r.must("apply", r.pod("victim", victim))
	locks := r.dir + "/root/locks"
	mounts, volumes := hostPrograms()
	holder := "apiVersion: v1\nkind: Pod\nmetadata: {name: holder}\nspec:\n  dnsPolicy: Default\n  terminationGracePeriodSeconds: 0\n  containers:\n" +
		"  - name: app\n    image: IMAGE\n    command: [chroot, /h, " + flock + ", /v/node, sh, -c, 'echo held; exec sleep 3598']\n    volumeMounts:\n" +
		"    - {name: v, mountPath: /h/v, readOnly: true}\n" + mounts + "  volumes:\n  - {name: v, hostPath: {path: " + locks + "}}\n" + volumes
	r.must("apply", r.pod("holder", holder))
	r.until("holder", "held")
	f, err := os.Open(locks + "/node")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("the container does not hold the lock: %v", err)
	}
	if out, err := r.podrun("apply", "--timeout", "10s", "--force", r.dir+"/victim.yaml"); err == nil || !strings.Contains(out, "timed out after 10s") {
		t.Errorf("apply: %v\n%s", err, out)
	}
}
