package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podrun/podrun/test/bench/result"
)

// rootlessRig has the embedded runtimes of root and of an ordinary user, both from one podrun-bundle. The user and its
// subordinate IDs exist only in the mount namespace of host.
type rootlessRig struct {
	root, user *podrun
	dir        string
	uid        int
	host       *exec.Cmd // keeps the mount namespace, in which /dev/net/tun is usable, too: podman requires it
	self       string    // this program, for the pods
}

// subordinateIDs is the first of the user's subordinate IDs.
const subordinateIDs = 1_600_000_000

// userSetup makes the files of the directory $1 those of the host, and prints a line when it is ready.
const userSetup = `for f in passwd group subuid subgid; do mount --bind "$1/etc/$f" "/etc/$f" || exit 1; done
if [ -e /dev/net/tun ]; then mknod -m 0666 "$1/tun" c 10 200 && mount --bind "$1/tun" /dev/net/tun || exit 1; fi
echo ready; exec sleep 3600`

// benchRootless compares the embedded runtime of an ordinary user with that of root (make bench-rootless).
func benchRootless(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("/tmp", "podrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, variable := range os.Environ() { // of the runtime of the tests
		name, _, _ := strings.Cut(variable, "=")
		if name == "CONTAINER_RUNTIME_ENDPOINT" || strings.HasPrefix(name, "PODRUN_") {
			os.Unsetenv(name)
		}
	}
	o.endpoint = ""
	b := &rootlessRig{dir: dir, uid: 4_000_000 + os.Getpid()%1_000_000}
	defer func() { err = errors.Join(err, b.remove(ctx)) }()
	if err := b.start(ctx, o); err != nil {
		return err
	}
	return run(ctx, b.sections(o), o, nil)
}

func (b *rootlessRig) sections(o options) []section {
	all := []section{
		{"apply", false, func(ctx context.Context) ([]result.Row, error) { return b.measureApply(ctx, o) }},
		{"get", false, func(ctx context.Context) ([]result.Row, error) { return b.measureGet(ctx, o) }},
		{"delete", false, func(ctx context.Context) ([]result.Row, error) { return b.measureDelete(ctx, o) }},
		{"network", false, func(ctx context.Context) ([]result.Row, error) { return b.measureStreams(ctx, o) }},
	}
	for _, program := range []string{"podman", "slirp4netns", "catatonit", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed: this run does not measure podman\n", program)
			return all
		}
	}
	return append(all, section{"podman", false, func(ctx context.Context) ([]result.Row, error) { return b.measurePodman(ctx, o) }})
}

// start makes the user, and starts both runtimes, which pull the image.
func (b *rootlessRig) start(ctx context.Context, o options) error {
	home, shared := filepath.Join(b.dir, "home"), filepath.Join(b.dir, "shared")
	b.self = filepath.Join(shared, "bench")
	binary, err := copyBinary(o.podrun, shared)
	if err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(b.self, own, 0o755), os.Chmod(binary, 0o755), os.Chmod(shared, 0o755), os.Chmod(b.dir, 0o755),
			os.Mkdir(home, 0o755), os.Mkdir(filepath.Join(b.dir, "etc"), 0o755), os.Mkdir(filepath.Join(home, "run"), 0o700))
	}
	for file, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0::/root:/bin/sh\nann:x:%d:%[1]d::%s:/bin/sh\n", b.uid, home), "group": fmt.Sprintf("root:x:0:\nann:x:%d:\n", b.uid),
		"subuid": fmt.Sprintf("ann:%d:65536\n", subordinateIDs), "subgid": fmt.Sprintf("ann:%d:65536\n", subordinateIDs),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(b.dir, "etc", file), []byte(text), 0o644))
	}
	if err != nil {
		return err
	}
	settings := []string{"PODRUN_CONFIG=", "PODRUN_EVICTION_HARD=", "PODRUN_RUNTIME=embedded"}
	b.root = &podrun{name: "root", path: binary, dir: filepath.Join(b.dir, "root"), env: append([]string{
		"PODRUN_ROOT_DIR=" + filepath.Join(b.dir, "root"), "PODRUN_POD_LOGS_DIR=" + filepath.Join(b.dir, "logs"), "PODRUN_CONTAINER_LOGS_DIR=" + filepath.Join(b.dir, "links")}, settings...)}
	b.user = &podrun{name: "user", path: binary, dir: home, as: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)},
		env: append([]string{"HOME=" + home, "USER=ann", "XDG_RUNTIME_DIR=", "XDG_DATA_HOME=", "XDG_CONFIG_HOME="}, settings...)}
	if err := errors.Join(b.own(), b.startHost()); err != nil {
		return err
	}
	// The first commands start the runtimes, the one of the user where newuidmap finds its IDs.
	if _, err := b.inHost(b.user).run(ctx, b.hostArguments(b.user.path, "image", "pull", o.image)...); err != nil {
		return err
	}
	_, err = b.root.run(ctx, "image", "pull", o.image)
	return err
}

// own gives the files in the user's home directory to the user, except those of the runtime.
func (b *rootlessRig) own() error {
	return filepath.WalkDir(b.user.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".local" {
			return fs.SkipDir
		}
		return os.Lchown(path, b.uid, b.uid)
	})
}

// startHost starts the process that keeps the mount namespace.
func (b *rootlessRig) startHost() error {
	b.host = exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", userSetup, "sh", b.dir)
	b.host.Stderr = os.Stderr
	b.host.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := b.host.StdoutPipe()
	if err == nil {
		err = b.host.Start()
	}
	if err != nil {
		return err
	}
	if n, err := out.Read(make([]byte, 16)); n == 0 {
		return fmt.Errorf("make the user's files: %w", err)
	}
	return nil
}

// inHost returns a copy of a program that nsenter starts as the user in the mount namespace.
func (b *rootlessRig) inHost(p *podrun) *podrun {
	in := *p
	in.path, in.as = "nsenter", nil
	return &in
}

func (b *rootlessRig) hostArguments(args ...string) []string {
	uid := strconv.Itoa(b.uid)
	return append([]string{"-t", strconv.Itoa(b.host.Process.Pid), "-m", "-S", uid, "-G", uid}, args...)
}

// onePod is the scenario of most sections.
func onePod(name string, o options) scenario {
	return scenario{Name: name, Pods: []manifest{pod(name, o.image, 0, 1)}, Parallel: 1}
}

// prepare writes the manifests of a scenario for both.
func (b *rootlessRig) prepare(s scenario) error {
	_, err := b.user.write(s)
	if err == nil {
		_, err = b.root.write(s)
	}
	return errors.Join(err, b.own())
}

func (b *rootlessRig) measureApply(ctx context.Context, o options) ([]result.Row, error) {
	s := onePod("apply", o)
	if err := b.prepare(s); err != nil {
		return nil, err
	}
	all, err := o.interleave(ctx, o.pairs, b.user.starter(ctx, s, ""), b.root.starter(ctx, s, ""))
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow("rootless: apply, against root", all)}, nil
}

func (b *rootlessRig) measureGet(ctx context.Context, o options) (rows []result.Row, err error) {
	s := onePod("get", o)
	if err := b.prepare(s); err != nil {
		return nil, err
	}
	var contenders []contender
	for _, p := range []*podrun{b.user, b.root} {
		defer func() { err = errors.Join(err, p.deleteAll(ctx)) }()
		if _, _, err := p.apply(ctx, s, []string{""}); err != nil {
			return nil, err
		}
		contenders = append(contenders, p.timed(ctx, "get", "-n", namespace))
	}
	all, err := o.interleave(ctx, o.pairs, contenders...)
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow("rootless: get, against root", all)}, nil
}

func (b *rootlessRig) measureDelete(ctx context.Context, o options) ([]result.Row, error) {
	s := onePod("delete", o)
	if err := b.prepare(s); err != nil {
		return nil, err
	}
	deleter := func(p *podrun) contender {
		c := p.timed(ctx, "delete", s.Pods[0].Name, "-n", namespace)
		c.before = func() error {
			_, _, err := p.apply(ctx, s, []string{""})
			return err
		}
		return c
	}
	all, err := o.interleave(ctx, o.pairs, deleter(b.user), deleter(b.root))
	if err != nil {
		return nil, errors.Join(err, b.user.deleteAll(ctx), b.root.deleteAll(ctx))
	}
	return []result.Row{ratioRow("rootless: delete, against root", all)}, nil
}

// The amount of data of a stream, and the number of rounds.
const (
	streamBytes  = 256 << 20
	streamRounds = 5
)

// streamPod is a pod that serves streams. The arguments are its name, namespace and image, the directory of this
// program, and the port of the host.
const streamPod = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: bench, hostPath: {path: %[4]s}}]
  containers:
  - {name: app, image: "%[3]s", command: [/bench/bench, -stream, serve, ":8080"], volumeMounts: [{name: bench, mountPath: /bench}], ports: [{containerPort: 8080, hostPort: %[5]d}]}
`

// streamer is a pod of one of the two, which serves and requests streams.
type streamer struct {
	p    *podrun
	name string
	port int
}

// measureStreams compares the time of streams between pods and the host.
func (b *rootlessRig) measureStreams(ctx context.Context, o options) (rows []result.Row, err error) {
	address, err := hostAddress()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go serveStreams(l)
	var both []streamer
	for _, p := range []*podrun{b.user, b.root} {
		defer func() { err = errors.Join(err, p.deleteAll(ctx)) }()
		s, err := b.startStreamer(ctx, o, p)
		if err != nil {
			return nil, err
		}
		both = append(both, s)
	}
	for _, path := range []struct {
		row string
		run func(streamer) (time.Duration, error)
	}{
		{"rootless: time of a stream out of a pod, against root", func(s streamer) (time.Duration, error) { return s.inside(ctx, "send", l.Addr().String()) }},
		{"rootless: time of a stream into a pod, against root", func(s streamer) (time.Duration, error) { return s.inside(ctx, "receive", l.Addr().String()) }},
		{"rootless: time of a stream to a host port, against root", func(s streamer) (time.Duration, error) { return stream("send", s.address(), streamBytes) }},
		{"rootless: time of a stream from a host port, against root", func(s streamer) (time.Duration, error) { return stream("receive", s.address(), streamBytes) }},
	} {
		var contenders []contender
		for _, s := range both {
			contenders = append(contenders, contender{name: s.p.name, run: func() (time.Duration, error) { return path.run(s) }})
		}
		all, err := o.interleave(ctx, streamRounds, contenders...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", path.row, err)
		}
		rows = append(rows, ratioRow(path.row, all))
	}
	return rows, nil
}

// startStreamer starts the pod, and waits until it serves.
func (b *rootlessRig) startStreamer(ctx context.Context, o options, p *podrun) (streamer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return streamer{}, err
	}
	s := streamer{p: p, name: "stream", port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	m := manifest{s.name, fmt.Sprintf(streamPod, s.name, namespace, o.image, filepath.Dir(b.self), s.port)}
	if _, err := p.write(scenario{Name: "stream", Pods: []manifest{m}}); err != nil {
		return s, err
	}
	if err := b.own(); err != nil {
		return s, err
	}
	if _, _, err := p.apply(ctx, scenario{Name: "stream", Pods: []manifest{m}, Parallel: 1}, []string{""}); err != nil {
		return s, err
	}
	return s, until(ctx, reactLimit, slowPoll, "for the pod that serves streams", func() (bool, error) {
		_, err := stream("receive", s.address(), 1)
		return err == nil, nil
	})
}

func (s streamer) address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// inside returns the time of a stream between a process in the pod and the host.
func (s streamer) inside(ctx context.Context, direction, address string) (time.Duration, error) {
	cmd := s.p.command(ctx, "exec", s.name, "-n", namespace, "--", "/bench/bench", "-stream", direction, address)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, &stderr)
	}
	return time.ParseDuration(strings.TrimSpace(out.String()))
}

// hostAddress returns an address of this host that pods reach.
func hostAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.Join(err, errors.New("this host has no IPv4 address but those of the loopback interface"))
}

// podmanUserSettings are podmanSettings for a host without systemd.
const podmanUserSettings = podmanSettings + "cgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"

// measurePodman compares a pod's start with one by rootless podman. Both start by nsenter.
func (b *rootlessRig) measurePodman(ctx context.Context, o options) ([]result.Row, error) {
	settings := filepath.Join(b.user.dir, "containers.conf")
	if err := os.WriteFile(settings, []byte(podmanUserSettings), 0o644); err != nil {
		return nil, err
	}
	s := onePod("podman", o)
	// runc of an ordinary user cannot set limits on cgroup v1, and podman has no way to omit them.
	s.Pods[0].YAML = strings.ReplaceAll(s.Pods[0].YAML, "    resources:\n      requests: {cpu: 1m, memory: 1Mi}\n", "")
	if err := b.prepare(s); err != nil {
		return nil, err
	}
	paths, err := b.user.write(s)
	if err != nil {
		return nil, err
	}
	podman := b.inHost(&podrun{name: "rootless podman", dir: b.user.dir, env: append(b.user.env, "CONTAINERS_CONF="+settings, "XDG_RUNTIME_DIR="+filepath.Join(b.user.dir, "run"))})
	run := func(args ...string) contender {
		return podman.timed(ctx, b.hostArguments(append([]string{"podman"}, args...)...)...)
	}
	if _, err := run("pull", "--tls-verify=false", o.image).run(); err != nil {
		return nil, err
	}
	own := b.inHost(b.user).timed(ctx, b.hostArguments(b.user.path, "apply", paths[0])...)
	own.after = func() error { return b.user.deleteAll(ctx) }
	theirs := run("kube", "play", "--tls-verify=false", paths[0])
	theirs.after = func() error {
		_, err := run("kube", "down", paths[0]).run()
		return err
	}
	all, err := o.interleave(ctx, o.pairs, own, theirs)
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow("rootless: apply, against rootless podman kube play", all)}, nil
}

// remove removes the pods, the runtimes and the user's processes.
func (b *rootlessRig) remove(ctx context.Context) error {
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	var errs []error
	for _, p := range []*podrun{b.user, b.root} {
		if p != nil {
			_, err := p.run(fresh, "runtime", "down", "--force")
			errs = append(errs, err)
		}
	}
	errs = append(errs, b.endUser())
	if b.host != nil && b.host.Process != nil {
		_ = b.host.Process.Kill() // it may have ended
		_ = b.host.Wait()
	}
	return errors.Join(errs...)
}

// endUser kills the processes of the user, such as podman's pause process.
func (b *rootlessRig) endUser() error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has ended
		}
		uid := int(info.Sys().(*syscall.Stat_t).Uid)
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && (uid == b.uid || uid >= subordinateIDs && uid < subordinateIDs+65536) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return err
}
