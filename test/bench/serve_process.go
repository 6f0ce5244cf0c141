package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// startLimit limits the time to start, or remove, all pods.
const startLimit = 5 * time.Minute

// served is a `podrun serve` with its own root directory.
type served struct {
	podrun    *podrun
	flags     []string // settings as flags
	dir       string
	manifests string
	log       *os.File
	cmd       *exec.Cmd
	ended     chan struct{}
}

// serve starts a podrun serve that uses the runtime at a socket.
func (b *serveBench) serve(name, socket string, flags ...string) (*served, error) {
	s := &served{podrun: b.podrun, dir: filepath.Join(b.podrun.dir, name)}
	s.manifests = filepath.Join(s.dir, "manifests")
	if err := os.MkdirAll(s.manifests, 0o755); err != nil {
		return nil, err
	}
	return s, s.start(socket, flags...)
}

// root is the root directory of serve.
func (s *served) root() string { return filepath.Join(s.dir, "root") }

// start starts podrun serve with the directory of manifests, which must exist. If socket is empty, serve uses the
// runtime that its environment selects.
func (s *served) start(socket string, flags ...string) error {
	var err error
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		return err
	}
	s.flags = append([]string{"--root-dir=" + s.root(), "--pod-logs-dir=" + filepath.Join(s.dir, "logs"),
		"--container-logs-dir=" + filepath.Join(s.dir, "links"), "--max-pods=1000"}, flags...)
	if socket != "" {
		s.flags = append(s.flags, "--container-runtime-endpoint=unix://"+socket)
	}
	s.cmd = exec.Command(s.podrun.path, append([]string{"serve", s.manifests}, s.flags...)...)
	s.cmd.Env = append(os.Environ(), s.podrun.env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		// the log contains the result
		s.cmd.Wait()
		close(s.ended)
	}()
	return nil
}

// remove stops serve and deletes its pods.
func (s *served) remove(ctx context.Context) error {
	// serve may have already exited
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		s.cmd.Process.Kill()
		<-s.ended
	}
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	_, err := s.podrun.run(fresh, append([]string{"delete", "--all", "--force", "-n", namespace}, s.flags...)...)
	return errors.Join(err, s.log.Close())
}

// put adds a manifest by renaming a file, and returns the time of the rename.
func (s *served) put(m manifest) (time.Time, error) {
	path := filepath.Join(s.dir, m.Name)
	if err := os.WriteFile(path, []byte(m.YAML), 0o600); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	return now, os.Rename(path, filepath.Join(s.manifests, m.Name+".yaml"))
}

// drop adds the manifests of the pods with the numbers from first to end-1.
func (s *served) drop(first, end int, image string) error {
	for i := first; i < end; i++ {
		m := pod(fmt.Sprintf("served-%d", i), image, 0, 1)
		m.YAML = strings.Replace(m.YAML, "restartPolicy: Never", "restartPolicy: Always", 1)
		if _, err := s.put(m); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the given number of containers is running.
func (s *served) await(ctx context.Context, c *runtimeClient, n int) error {
	return until(ctx, startLimit, slowPoll, fmt.Sprintf("that %d containers run", n), func() (bool, error) {
		running, err := s.running(ctx, c)
		return running == n, err
	})
}

// alive returns an error if serve has ended.
func (s *served) alive() error {
	select {
	case <-s.ended:
		return s.ends()
	default:
		return nil
	}
}

// ends returns the error that serve has ended.
func (s *served) ends() error {
	return fmt.Errorf("%s has ended:\n%s", filepath.Base(s.cmd.Path), strings.TrimSpace(s.tail()))
}

// running counts the running containers.
func (s *served) running(ctx context.Context, c *runtimeClient) (int, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace}}})
	return len(list.GetContainers()), err
}

// tail returns the end of serve's log.
func (s *served) tail() string {
	data, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4096):])
}

// slowPoll is the interval for polling the runtime for values that are not measured.
const slowPoll = 50 * time.Millisecond

// until calls the function ask at the interval every until ask returns true.
func until(ctx context.Context, limit, every time.Duration, what string, ask func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s %s", limit, what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// usage is the resource usage of an idle process.
type usage struct {
	memory    numbers // private memory in MB, once a second
	processor float64 // CPU time, in percent of one processor
	files     int     // open descriptors
}

// settle is the time after which serve counts as idle: the starts of the pods and their first probes
// have ended.
const settle = 35 * time.Second

// watchIdle measures serve for a while after it has settled.
func (s *served) watchIdle(ctx context.Context, while time.Duration) (u usage, err error) {
	if err := sleep(ctx, settle); err != nil {
		return u, err
	}
	return s.watchSettled(ctx, while)
}

// watchSettled measures serve for a while.
func (s *served) watchSettled(ctx context.Context, while time.Duration) (u usage, err error) {
	begun, before, err := s.processor()
	if err != nil {
		return u, err
	}
	for time.Since(begun) < while {
		private, err := s.memory()
		if err != nil {
			return u, err
		}
		u.memory = append(u.memory, private)
		if err := sleep(ctx, time.Second); err != nil {
			return u, err
		}
	}
	ended, after, err := s.processor()
	if err != nil {
		return u, err
	}
	u.processor = 100 * float64(after-before) / float64(ended.Sub(begun))
	entries, err := os.ReadDir(s.proc("fd"))
	u.files = len(entries)
	return u, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (s *served) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, name) }

// memory returns the private memory, in MB: the anonymous pages, which the kernel cannot reclaim
// without swap. The pages of the binary do not count, because the kernel can reclaim them.
func (s *served) memory() (float64, error) {
	data, err := os.ReadFile(s.proc("status"))
	if err != nil {
		return 0, s.ends()
	}
	_, value, found := strings.Cut(string(data), "\nRssAnon:")
	if !found {
		return 0, s.ends() // a zombie has no memory
	}
	kilobytes, err := strconv.ParseFloat(strings.Fields(value)[0], 64) // in KiB (proc_pid_status(5))
	return kilobytes * 1024 / 1e6, err
}

// processor returns the CPU time used so far, and the current time.
func (s *served) processor() (time.Time, time.Duration, error) {
	data, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return time.Time{}, 0, s.ends()
	}
	// The fields after the second one, which may contain spaces.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var ticks time.Duration
	for _, field := range f[11:13] { // utime and stime, in 1/100 s (proc(5))
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return time.Time{}, 0, err
		}
		ticks += time.Duration(n) * 10 * time.Millisecond
	}
	return time.Now(), ticks, nil
}

// goroutines terminates serve with the signal that makes a Go program print its goroutines, and
// returns their number.
func (s *served) goroutines() (int, error) {
	if err := s.cmd.Process.Signal(syscall.SIGABRT); err != nil {
		return 0, err
	}
	<-s.ended
	data, err := os.ReadFile(s.log.Name())
	return bytes.Count(data, []byte("\ngoroutine ")), err
}
