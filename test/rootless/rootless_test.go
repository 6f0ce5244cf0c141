package rootless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/test/hostport"
	"github.com/podrun/podrun/test/patience"
)

// webPod is a pod with a web server. The arguments are the name, the image and the host port.
const webPod = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %[2]s
    command: [httpd, -f, -p, "8080", -h, /www]
    ports: [{containerPort: 8080, hostPort: %[3]d}]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
`

// port returns a free port of the host that an ordinary user may use.
func port(t *testing.T) int {
	t.Helper()
	number, err := hostport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// get returns the response of a server on the host, or "".
func get(port int) string {
	resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port))
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// answers waits until a server on the host responds.
func (u *user) answers(port int) {
	u.Helper()
	patience.Wait(u, patience.OnRuntime, "the pod does not answer", func() bool { return get(port) == "hello" })
}

// record returns the record of podrun-rootless.
func (u *user) record() rootless.Record {
	u.Helper()
	var r rootless.Record
	data, err := os.ReadFile(rootless.RecordFile(u.runDir()))
	u.check(err)
	u.check(json.Unmarshal(data, &r))
	return r
}

// TestLife runs pods as an ordinary user, with and without a login session, from nothing to nothing.
func TestLife(t *testing.T) {
	for name, session := range map[string]bool{"session": true, "cron": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, session)
			hostPort, nodePort := port(t), port(t)
			u.write("web.yaml", fmt.Sprintf(webPod, "web", usersImage, hostPort))
			u.shows("pod/web created", "apply", "web.yaml", "--wait=ready")
			u.answers(hostPort)
			if r := u.record(); !strings.Contains(r.UIDMap, fmt.Sprintf("1 %d %d", u.first, subordinate)) || r.SingleID {
				t.Errorf("the record is %+v", r)
			}
			u.shows("pod/web unchanged", "apply", "web.yaml") // the listener of the host port is podrun's own (R2)
			u.shows("uid=0", "exec", "web", "--", "id")
			u.write("file", "text\n")
			u.must("cp", "file", "web:/tmp/file")
			u.shows("text", "exec", "web", "--", "cat", "/tmp/file")
			u.forwards("web")
			u.runs()
			u.serves(nodePort)
			u.otherEnvironment()
			u.fails(125, []string{"the usage of CPU and memory is not available"}, "top")
			u.shows("pod/web deleted", "delete", "--all")
			u.must("delete", "service", "web")
			if out := u.must("get"); !strings.Contains(out, "no pods found") {
				t.Errorf("get after delete: %s", out)
			}
			u.shows("runtime removed", "runtime", "down")
			if left := u.processes(); len(left) > 0 {
				t.Errorf("processes after runtime down: %v", left)
			}
		})
	}
}

// forwards checks port-forward to a pod.
func (u *user) forwards(pod string) {
	u.Helper()
	local := port(u.T)
	ctx, cancel := context.WithCancel(context.Background())
	c := u.command(ctx, bundle, "port-forward", pod, fmt.Sprintf("%d:8080", local))
	u.check(c.Start())
	u.answers(local)
	cancel()
	_ = c.Wait() // it was killed
}

// runs checks the output and the exit code of a pod that ends, from a file and from standard input.
func (u *user) runs() {
	u.Helper()
	const job = "apiVersion: v1\nkind: Pod\nmetadata: {name: job}\nspec:\n  restartPolicy: Never\n  containers:\n  - {name: c, image: \"" + usersImage + "\", command: [sh, -c, \"echo out; exit 7\"]}\n"
	u.write("job.yaml", job)
	u.fails(7, []string{"out"}, "run", "job.yaml")
	out, err := u.runWith(strings.Replace(job, "exit 7", "exit 0", 1), "run", "-")
	if err != nil || !strings.Contains(out, "out") {
		u.Errorf("run -: %v\n%s", err, out)
	}
}

// serves checks a Service with a node port, which forwards to the pod web, and its name in another pod.
func (u *user) serves(nodePort int) {
	u.Helper()
	// --service-node-port-range does not exist: any unprivileged port is valid.
	u.write("service.yaml", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  type: NodePort\n  selector: {app: web}\n  ports: [{port: 80, targetPort: 8080, nodePort: %d}]\n", 30000+nodePort%2767))
	u.must("apply", "service.yaml")
	u.answers(30000 + nodePort%2767)
	u.write("client.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: client}\nspec:\n  restartPolicy: Never\n  containers:\n  - {name: c, image: \""+usersImage+"\", command: [sh, -c, \"wget -q -O - http://web/\"]}\n")
	u.shows("hello", "run", "client.yaml")
}

// otherEnvironment checks that a command without the variables of the session finds the same runtime.
func (u *user) otherEnvironment() {
	u.Helper()
	before := u.env
	defer func() { u.env = before }()
	u.env = append([]string{}, before[:3]...)
	if len(before) > 3 {
		// The run directory of the session is not in /run/user, where podrun would find it.
		u.env = append(u.env, before[3]+"/") // another spelling
	}
	u.shows("web", "get")
}

// TestPod checks the parts of a pod that depend on IDs and mounts.
func TestPod(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	data := filepath.Dir(u.write("data/own", "mine\n"))
	u.write("pod.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {password: pw}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000, supplementalGroups: [4000]}
  volumes:
  - {name: cm, configMap: {name: cm}}
  - {name: secret, secret: {secretName: secret, defaultMode: 0440}}
  - {name: empty, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
  - {name: data, hostPath: {path: `+data+`, type: Directory}}
  initContainers:
  - {name: init, image: "`+usersImage+`", command: [sh, -c, "touch /empty/file"], volumeMounts: [{name: empty, mountPath: /empty}]}
  containers:
  - name: c
    image: "`+usersImage+`"
    command: [sh, -c, "id; cat /cm/key /secret/password; ls -ln /empty/file; stat -c 'mode %a %g' /secret/..data/password; cat /data/own; grep ' /memory ' /proc/mounts; touch /home/app/x && echo home"]
    volumeMounts:
    - {name: cm, mountPath: /cm}
    - {name: secret, mountPath: /secret}
    - {name: empty, mountPath: /empty}
    - {name: memory, mountPath: /memory}
    - {name: data, mountPath: /data}
`)
	out := u.must("run", "pod.yaml")
	for _, want := range []string{"uid=1000(app) gid=3000 groups=2000,3000,4000", "value", "pw", "1000     2000", "mode 440 2000", "mine", "size=16384k", "home"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the output:\n%s", want, out)
		}
	}
}

// TestRepair kills the processes of the runtime. The next command repairs it within the same namespaces, or, if all
// processes are dead, in new ones, without processes of the dead ones.
func TestRepair(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	hostPort := port(t)
	u.write("web.yaml", fmt.Sprintf(webPod, "web", usersImage, hostPort))
	u.must("apply", "web.yaml")
	u.answers(hostPort)
	before := u.record()

	u.kill(before.PID)
	if get(hostPort) != "" {
		t.Error("the host port works without podrun-rootless")
	}
	u.shows("Running", "get")
	u.answers(hostPort)
	after := u.record()
	if after.PID == before.PID || after.UserNamespace != before.UserNamespace || after.MountNamespace != before.MountNamespace {
		t.Errorf("podrun-rootless was not started in the same namespaces: %+v, then %+v", before, after)
	}

	u.kill(u.find("/containerd --config"))
	u.shows("uid=0", "exec", "web", "--", "id")

	// Only a shim is left.
	u.kill(after.PID)
	u.kill(u.find("/containerd --config"))
	u.shows("Running", "get")
	if r := u.record(); r.UserNamespace != before.UserNamespace {
		t.Errorf("a shim remained, but there is a second user namespace: %+v", r)
	}
	u.answers(hostPort)

	// The user can end all processes except those with subordinate IDs (R4).
	for pid := range u.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if uid := realUID("/proc/" + strconv.Itoa(pid)); uid >= u.first {
			t.Logf("process %d has the subordinate ID %d", pid, uid)
		}
	}
	u.shows("Unknown", "get")
	u.shows("pod/web restarted", "apply", "web.yaml")
	u.answers(hostPort)
}

// TestStrays checks that processes with subordinate IDs do not survive their namespaces (R4): the sandbox's process
// runs as another user than its shim.
func TestStrays(t *testing.T) {
	t.Parallel()
	u := newUser(t, false)
	u.write("web.yaml", fmt.Sprintf(webPod, "web", usersImage, port(t)))
	u.must("apply", "web.yaml")
	pause := u.find("/pause")
	for pid := range u.processes() {
		if pid != pause {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if _, _, ok := rootless.Stat(pause); !ok {
		t.Skip("the sandbox's process ended with its shim")
	}
	u.must("get")
	if state, _, ok := rootless.Stat(pause); ok && state != "Z" {
		t.Error("the sandbox's process of the dead namespaces runs")
	}
}

// TestFirstCommands starts ten commands at once: they use one podrun-rootless and one containerd.
func TestFirstCommands(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		name := "web" + strconv.Itoa(i)
		file := u.write(name+".yaml", fmt.Sprintf(webPod, name, rootImage, port(t)))
		wg.Go(func() {
			if out, err := u.run("apply", file); err != nil {
				errs[i] = fmt.Errorf("%w: %s", err, out)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	u.find("podrun-rootless --run-dir")
	u.find("/containerd --config")
	if out := u.must("get", "--no-headers"); strings.Count(out, "web") != len(errs) {
		t.Errorf("the pods are\n%s", out)
	}
}

// TestOtherUser checks that another user can neither enter the namespaces nor use the sockets, and that the user cannot
// use root's.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	u := newUser(t, false)
	u.must("runtime", "up")
	r := u.record()
	for _, dir := range []string{u.runDir(), filepath.Dir(u.sockets()[0])} {
		u.check(os.Chmod(dir, 0o711)) // permits access by name, as a mistake of the user could
	}
	enter := filepath.Join(shared, "enter")
	u.check(copyFile(r.Enter, enter))
	for name, command := range map[string][]string{
		"podrun-enter": {enter, strconv.Itoa(r.PID), strconv.FormatUint(r.StartTime, 10), "--", "/bin/true"},
		"root":         {"cat", fmt.Sprintf("/proc/%d/root/etc/hostname", r.PID)},
		"kill":         {"kill", "-9", strconv.Itoa(r.PID)},
		"signal":       {"kill", "-9", strconv.Itoa(u.find("/containerd --config"))},
	} {
		c := exec.Command(command[0], command[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid) - 1_000_000, Gid: 1}}
		if out, err := c.CombinedOutput(); err == nil {
			t.Errorf("%s: another user can do it: %s", name, out)
		}
	}
	for _, socket := range append(u.sockets(), r.Ports) {
		if err := connectAs(u.uid-1_000_000, socket); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user connects to %s: %v", socket, err)
		}
	}
	u.check(os.Chmod(u.runDir(), 0o700))
}

// connectAs connects to a Unix socket with the permissions of a user.
func connectAs(uid int, socket string) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, err := unix.SetfsuidRetUid(uid); err != nil {
			result <- err
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
			_ = unix.Close(fd)
		}
		result <- err
	}()
	return <-result
}

// sockets returns the sockets of containerd.
func (u *user) sockets() []string {
	u.Helper()
	found, err := filepath.Glob(filepath.Join(u.runDir(), "*", "containerd.sock"))
	if err != nil || len(found) == 0 {
		u.Fatalf("no socket of containerd in %s: %v", u.runDir(), err)
	}
	return found
}

// TestLoopback checks that pods cannot reach servers on the host's loopback interface, unless they use the host's
// network.
func TestLoopback(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	u.check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "secret") })}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  hostNetwork: %v\n  restartPolicy: Never\n  containers:\n  - {name: c, image: \"" + rootImage + "\", command: [sh, -c, '%s']}\n"
	number := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	script := "for a in 127.0.0.1 192.0.0.1 192.0.0.2 10.0.2.2 169.254.169.254; do wget -q -O - http://$a:" + number + "/; done; echo end"
	u.write("inside.yaml", fmt.Sprintf(pod, "inside", false, script))
	if out := u.must("run", "inside.yaml"); strings.Contains(out, "secret") || !strings.Contains(out, "end") {
		t.Errorf("the pod's output is\n%s", out)
	}
	u.write("outside.yaml", fmt.Sprintf(pod, "outside", true, "wget -q -O - http://127.0.0.1:"+number+"/"))
	u.shows("secret", "run", "outside.yaml")
}

// TestRefusals checks that podrun refuses what cannot work, with the reason and a fix, and without an effect.
func TestRefusals(t *testing.T) {
	t.Parallel()
	u := newUser(t, false)
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: refused}\nspec:\n  %s\n  containers:\n  - {name: c, image: \"" + rootImage + "\", command: [sleep, \"9\"]%s}\n"
	for spec, want := range map[[2]string][]string{
		{"hostUsers: false", ""}:                                         {"user ann cannot give a pod its own user namespace", "use sudo"},
		{"securityContext: {runAsUser: 70000}", ""}:                      {"user ID 70000 does not exist in the user namespace of user ann, which has the IDs 0 to 65536", "usermod --add-subuids"},
		{"hostname: h", ", ports: [{containerPort: 80, hostPort: 80}]"}:  {"user ann cannot listen on port 80 of the host", "net.ipv4.ip_unprivileged_port_start"},
		{"volumes: [{name: v, nfs: {server: s.example, path: /x}}]", ""}: {"user ann cannot mount NFS exports", "hostPath"},
	} {
		u.write("refused.yaml", fmt.Sprintf(pod, spec[0], spec[1]))
		u.fails(122, want, "apply", "refused.yaml")
	}
	u.write("sealed.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: db, annotations: {podrun.dev/credential.password: podrun.default.db}}\n---\n"+
		fmt.Sprintf(pod, "volumes: [{name: v, secret: {secretName: db}}]", ""))
	u.fails(122, []string{"user ann cannot use credentials of the host", "use sudo"}, "apply", "sealed.yaml")
	config := u.write(".config/podrun/config.yaml", "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nimagePolicy: verified\n")
	u.write("plain.yaml", fmt.Sprintf(pod, "hostname: h", ""))
	u.fails(122, []string{"imagePolicy: verified is not supported for podrun as an ordinary user"}, "apply", "plain.yaml")
	u.check(os.Remove(config))
	u.write("limited.yaml", fmt.Sprintf(pod, "hostname: h", ", resources: {limits: {memory: 64Mi}}"))
	u.fails(122, []string{"the limits of memory have no effect"}, "apply", "--require-limits", "limited.yaml")
	if out := u.must("get"); !strings.Contains(out, "no pods found") {
		t.Errorf("pods after refusals: %s", out)
	}
	u.shows("warning: ", "apply", "limited.yaml")
	u.write("resized.yaml", fmt.Sprintf(pod, "hostname: h", ", resources: {limits: {memory: 96Mi}}"))
	u.fails(122, []string{"in-place resize is not available", "podrun apply --force"}, "apply", "resized.yaml")
	u.fails(125, []string{"must run as root", "sudo"}, "apply", "--runtime=unix:///run/x.sock", "limited.yaml")
}

// TestSingleID runs a pod of a user without subordinate IDs.
func TestSingleID(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	u.etc("subuid", "")
	u.etc("subgid", "")
	u.check(os.Remove(filepath.Join(u.images(), "users.tar"))) // it could not be unpacked
	hostPort := port(t)
	u.write("web.yaml", fmt.Sprintf(webPod, "web", rootImage, hostPort))
	out := u.must("apply", "web.yaml", "--wait=ready")
	if !strings.Contains(out, "user ann: has no subordinate IDs") || !strings.Contains(out, "usermod --add-subuids") {
		t.Errorf("no warning:\n%s", out)
	}
	u.answers(hostPort)
	u.write("user.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: user}\nspec:\n  securityContext: {runAsUser: 1}\n  containers:\n  - {name: c, image: \""+rootImage+"\"}\n")
	u.fails(122, []string{"user ID 1 does not exist: user ann has no subordinate IDs"}, "apply", "user.yaml")
	doctor, _ := u.run("doctor") // its exit code depends on the host
	if !strings.Contains(doctor, "user ann has no range in /etc/subuid") {
		t.Errorf("doctor prints\n%s", doctor)
	}
}

// TestChangedIDs checks that podrun notices changed subordinate IDs.
func TestChangedIDs(t *testing.T) {
	t.Parallel()
	u := newUser(t, false)
	u.must("runtime", "up")
	u.etc("subuid", fmt.Sprintf("ann:%d:%d\n", u.first, subordinate/2))
	doctor, _ := u.run("doctor") // its exit code depends on the host
	if !strings.Contains(doctor, "have changed since podrun-rootless was started") {
		t.Errorf("doctor prints\n%s", doctor)
	}
	u.kill(u.record().PID)
	u.shows("the ranges of user ann have changed", "get")
	u.etc("subuid", fmt.Sprintf("ann:%d:%d\n", u.first, subordinate))
}

// TestServe checks supervision: probes from podrun, restarts, and the end by a signal.
func TestServe(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	hostPort := port(t)
	u.write("manifests/web.yaml", fmt.Sprintf(webPod, "web", usersImage, hostPort))
	u.write("manifests/sick.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: sick}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: c\n    image: \""+usersImage+"\"\n    command: [sleep, \"1000\"]\n    livenessProbe: {tcpSocket: {port: 81}, periodSeconds: 1, failureThreshold: 1}\n")
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	c := u.command(ctx, bundle, "serve", filepath.Join(u.home, "manifests"))
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	u.check(c.Start())
	u.answers(hostPort)
	patience.Wait(t, patience.OnRuntime, "the pod is not restarted, or not ready", func() bool {
		pods, err := u.run("get", "--no-headers")
		for line := range strings.Lines(pods) {
			f := strings.Fields(line)
			if len(f) > 3 && (f[0] == "sick" && f[3] == "0" || f[0] == "web" && f[1] != "1/1") {
				return false
			}
		}
		return err == nil && strings.Contains(pods, "sick") && strings.Contains(pods, "web")
	})
	u.check(c.Process.Signal(syscall.SIGTERM))
	if err := c.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, out.String())
	}
	if get(hostPort) != "hello" {
		t.Error("the pod does not run without podrun serve")
	}
}

// TestSignedSource runs serve with signed manifests. The keys belong to the user, below XDG_CONFIG_HOME; podrun refuses keys
// that others can write, and content that is not signed.
func TestSignedSource(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip(err)
	}
	const dir = ".config/podrun/manifests"
	u.write(dir+"/web.yaml", fmt.Sprintf(webPod, "web", rootImage, port(t)))
	as := func(line string) {
		t.Helper()
		ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
		defer cancel()
		if out, err := u.command(ctx, "sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	sign := func(serial int) {
		as(fmt.Sprintf("cd %s && { echo '# serial %d'; sha256sum web.yaml; } >SHA256SUMS && rm -f SHA256SUMS.sig && ssh-keygen -q -Y sign -n podrun -f ~/key SHA256SUMS", dir, serial))
	}
	as(`ssh-keygen -q -t ed25519 -N '' -f key && printf 'ann namespaces="podrun" %s\n' "$(cut -d' ' -f1,2 key.pub)" >.config/podrun/allowed_signers`)
	keys := filepath.Join(u.home, ".config/podrun/allowed_signers")
	u.check(os.Chmod(keys, 0o666))
	sign(1)
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	c := u.command(ctx, bundle, "serve", "--source-verify", keys)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	u.check(c.Start())
	sources := func(want string) {
		t.Helper()
		patience.Wait(t, patience.OnRuntime, "the sources do not show "+want, func() bool {
			shown, err := u.run("get", "--sources")
			return err == nil && strings.Contains(shown, want)
		})
	}
	sources("every user can write to it")
	u.check(os.Chmod(keys, 0o644))
	sources("Present")
	u.shows("condition met", "wait", "web", "--timeout", "60s")
	u.write(dir+"/web.yaml", fmt.Sprintf(webPod, "web", usersImage, port(t)))
	sources("web.yaml: its content differs")
	u.shows(rootImage, "get", "web", "-o", "jsonpath={.spec.containers[0].image}")
	sign(2)
	patience.Wait(t, patience.OnRuntime, "the signed update is not applied", func() bool {
		image, err := u.run("get", "web", "-o", "jsonpath={.spec.containers[0].image}")
		return err == nil && strings.Contains(image, usersImage)
	})
	u.check(c.Process.Signal(syscall.SIGTERM))
	if err := c.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, out.String())
	}
}
