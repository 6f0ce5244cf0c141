package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// podrun is the binary under test.
type podrun struct {
	name string // in the table
	path string
	dir  string // directory for manifests
	env  []string
	old  *podrun // a second podrun with the same directories; nil if there is none
	// the user who runs it; nil for the user of the bench
	as *syscall.Credential
}

// versions returns podrun and, if there is one, the second podrun.
func (p *podrun) versions() []*podrun {
	if p.old == nil {
		return []*podrun{p}
	}
	return []*podrun{p, p.old}
}

// contenders returns the contenders of podrun, of another program and of the second podrun, if there
// is one.
func (p *podrun) contenders(of func(*podrun) contender, other contender) []contender {
	all := []contender{of(p), other}
	if p.old != nil {
		all = append(all, of(p.old))
	}
	return all
}

// starter returns a contender that starts the pods of a scenario.
func (p *podrun) starter(ctx context.Context, s scenario, endpoint string) contender {
	return contender{
		name: p.name,
		run: func() (time.Duration, error) {
			_, took, err := p.apply(ctx, s, slices.Repeat([]string{endpoint}, len(s.Pods)))
			return took, err
		},
		after: func() error { return p.deleteAll(ctx) },
	}
}

// timed returns a contender that runs podrun with arguments.
func (p *podrun) timed(ctx context.Context, args ...string) contender {
	return contender{name: p.name, run: func() (time.Duration, error) {
		r, err := p.run(ctx, args...)
		return r.wall(), err
	}}
}

// process is a run of podrun.
type process struct {
	Begin, End time.Time
	Processor  time.Duration // user and system time
	PeakRSS    int64         // in bytes; never less than the memory that the bench had when it started podrun
}

func (p process) wall() time.Duration { return p.End.Sub(p.Begin) }

// command returns a command of podrun.
func (p *podrun) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = append(os.Environ(), p.env...)
	if p.as != nil {
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: p.as}
	}
	// An interrupted podrun process rolls back.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// run runs podrun and waits for it.
func (p *podrun) run(ctx context.Context, args ...string) (process, error) {
	cmd := p.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var r process
	r.Begin = time.Now()
	err := cmd.Run()
	r.End = time.Now()
	if err != nil {
		return r, fmt.Errorf("%s %s: %w\n%s", filepath.Base(p.path), args[0], err, out.Bytes())
	}
	r.Processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.PeakRSS = usage.Maxrss << 10
	}
	return r, nil
}

// write writes the manifests of a scenario and returns their paths.
func (p *podrun) write(s scenario) ([]string, error) {
	var paths []string
	dir := filepath.Join(p.dir, "manifests", strings.ReplaceAll(s.Name, " ", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, m := range s.Pods {
		path := filepath.Join(dir, m.Name+".yaml")
		if err := os.WriteFile(path, []byte(m.YAML), 0o600); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// apply starts the pods of a scenario. Each pod has its own podrun process, which uses the endpoint
// with the pod's index, unless one process applies all pods. It returns the processes and the total
// wall time.
func (p *podrun) apply(ctx context.Context, s scenario, endpoints []string) ([]process, time.Duration, error) {
	paths, err := p.write(s)
	if err != nil {
		return nil, 0, err
	}
	if s.OneProcess {
		paths = []string{filepath.Dir(paths[0])}
	}
	runs := make([]process, len(paths))
	begin := time.Now()
	err = atATime(s.Parallel, len(paths), func(i int) (err error) {
		args := append(append([]string{"apply"}, p.at(endpoints[i])...), s.Args...)
		runs[i], err = p.run(ctx, append(args, paths[i])...)
		return err
	})
	return runs, time.Since(begin), err
}

// at returns the flags for an endpoint. The runtime's own endpoint uses the root directory of
// the environment. Each proxy has its own root directory, because a root directory can use only
// one endpoint.
func (p *podrun) at(endpoint string) []string {
	if endpoint == strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://") {
		return nil
	}
	return []string{"--container-runtime-endpoint=unix://" + endpoint, "--root-dir=" + filepath.Join(p.dir, "roots", filepath.Base(endpoint))}
}

// deleteAll deletes the pods of the bench even if the bench was interrupted: those that use the
// runtime's own endpoint, and those that use a proxy.
func (p *podrun) deleteAll(ctx context.Context, proxies ...string) error {
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, err := p.run(fresh, "delete", "--all", "--force", "-n", namespace)
	for _, endpoint := range proxies {
		_, failed := p.run(fresh, append(p.at(endpoint), "delete", "--all", "--force", "-n", namespace)...)
		err = errors.Join(err, failed)
	}
	return err
}

// atATime calls do for each number from 0 to n-1, and returns the first error. It limits the
// number of concurrent calls.
func atATime(parallel, n int, do func(i int) error) error {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
