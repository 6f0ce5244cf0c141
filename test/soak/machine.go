package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// uptime returns the machine's uptime, which the containers also record.
func uptime() (time.Duration, error) {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
	return time.Duration(seconds * float64(time.Second)), err
}

// supervisor is a `podrun serve` process that the soak repeatedly kills and restarts.
type supervisor struct {
	podrun, manifests string
	log               *os.File
	cmd               *exec.Cmd
	// closed when cmd has exited, after err is set to its result
	ended chan struct{}
	err   error
}

func (s *supervisor) start() error {
	cmd, ended := exec.Command(s.podrun, "serve", s.manifests), make(chan struct{})
	cmd.Stdout, cmd.Stderr = s.log, s.log
	// The process must not outlive the soak.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() {
		s.err = cmd.Wait()
		close(ended)
	}()
	return nil
}

// kill kills the process with SIGKILL and restarts it. It returns an error if the process had
// already exited.
func (s *supervisor) kill() error {
	select {
	case <-s.ended:
		return fmt.Errorf("podrun serve has ended by itself: %w", s.err)
	default:
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	<-s.ended
	return s.start()
}

// stop terminates the process with SIGTERM, if the process has been started. The resulting exit is
// not a failure.
func (s *supervisor) stop() error {
	if s.cmd == nil {
		return nil
	}
	select {
	case <-s.ended:
		return nil // already stopped
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		err := s.cmd.Process.Kill()
		<-s.ended
		return errors.Join(errors.New("podrun serve does not end after SIGTERM"), err)
	}
	if s.err != nil {
		return fmt.Errorf("podrun serve after SIGTERM: %w", s.err)
	}
	return nil
}

// command runs a program until it exits.
func command(ctx context.Context, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out.Bytes())
	}
	return nil
}

// place contains the paths that podrun and the runtime use.
type place struct{ socket, rootDir, logsDir, linksDir, cgroup string }

// placeFromEnv reads the variables that hack/runtime sets.
func placeFromEnv() (place, error) {
	p := place{socket: strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://"), rootDir: os.Getenv("PODRUN_ROOT_DIR"),
		logsDir: os.Getenv("PODRUN_POD_LOGS_DIR"), linksDir: os.Getenv("PODRUN_CONTAINER_LOGS_DIR"), cgroup: os.Getenv("PODRUN_CGROUP_ROOT")}
	if p.socket == "" || p.rootDir == "" || p.logsDir == "" || p.linksDir == "" || p.cgroup == "" {
		return p, errors.New("the runtime of the tests is not set: run 'make soak', or eval \"$(hack/runtime up)\" first")
	}
	return p, nil
}

// left lists the objects of pods that remain: sandboxes, containers, shims, cgroups,
// directories, logs and mounts.
func (p place) left(ctx context.Context) ([]string, error) {
	records, err := p.records(ctx)
	if err != nil {
		return nil, err
	}
	mounts, err := p.mounts()
	if err != nil {
		return nil, err
	}
	shims, err := p.shims()
	if err != nil {
		return nil, err
	}
	out := slices.Concat(records, mounts, shims)
	for _, dir := range []string{filepath.Join(p.rootDir, "pods"), p.logsDir, p.linksDir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return append(out, p.groups()...), nil
}

// records lists the runtime's objects.
func (p place) records(ctx context.Context) ([]string, error) {
	conn, err := grpc.NewClient("unix:"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	sandboxes, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	containers, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range sandboxes.Items {
		out = append(out, "sandbox "+s.Id+" of "+s.GetMetadata().GetName())
	}
	for _, c := range containers.Containers {
		out = append(out, "container "+c.Id+" "+c.GetMetadata().GetName())
	}
	return out, nil
}

// mounts lists the mounts below podrun's directory.
func (p place) mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], p.rootDir+"/") {
			out = append(out, "mount "+f[4])
		}
	}
	return out, nil
}

// shims lists the runtime's shim processes. Their arguments contain the runtime's socket.
func (p place) shims() ([]string, error) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the process has exited
		}
		args := strings.Split(string(data), "\x00")
		if strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") && slices.Contains(args, p.socket) {
			out = append(out, "shim "+strings.TrimSuffix(strings.TrimPrefix(path, "/proc/"), "/cmdline"))
		}
	}
	return out, nil
}

// groups lists the cgroups of pods in every hierarchy.
func (p place) groups() []string {
	var out []string
	for _, base := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		for _, root := range []string{p.cgroup, p.cgroup + ".slice"} {
			for _, below := range []string{"/*/pod*", "/*/*/pod*", "/*/*-pod*.slice", "/*/*/*-pod*.slice"} {
				// the patterns are valid, so Glob returns no error
				found, _ := filepath.Glob(base + root + below)
				out = append(out, found...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
