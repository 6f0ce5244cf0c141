package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/podrun/podrun/cri/critest"
)

// serveFake runs the fake runtime in this process, until a signal arrives.
func serveFake(socket string) error {
	// No process listens on these addresses, because no test uses them.
	rt := critest.New(critest.AnyImage(), critest.PodRange("127.89.0.0/16"))
	defer rt.Close()
	stop, err := rt.Serve(socket)
	if err != nil {
		return err
	}
	defer stop()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-ticker.C:
			// Recorded calls are only for tests, and would fill the memory of this process.
			rt.ForgetCalls()
		}
	}
}

// onFake starts a serve on a fake runtime in another process. The function end stops both.
func (b *serveBench) onFake(ctx context.Context) (s *served, client *runtimeClient, end func() error, err error) {
	socket := filepath.Join(b.podrun.dir, "fake.sock")
	stop, err := startFake(socket)
	if err != nil {
		return nil, nil, nil, err
	}
	if client, err = dial(socket); err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	err = until(ctx, reactLimit, slowPoll, "for the fake runtime", func() (bool, error) {
		_, err := os.Stat(socket)
		return err == nil, nil
	})
	if err == nil {
		s, err = b.serve("fake", socket)
	}
	if err != nil {
		client.Close()
		return nil, nil, nil, errors.Join(err, stop())
	}
	return s, client, func() error {
		defer client.Close()
		return errors.Join(s.remove(ctx), stop())
	}, nil
}

// startFake starts a process with the fake runtime. The function stop ends it.
func startFake(socket string) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	fake := exec.Command(self, "-fake", socket)
	fake.Stderr = os.Stderr
	fake.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := fake.Start(); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(fake.Process.Signal(syscall.SIGTERM), fake.Wait()) }, nil
}

// measureFake runs an increasing number of pods under serve, and measures its memory for
// each number.
func (b *serveBench) measureFake(ctx context.Context) (rows []serveRow, err error) {
	s, client, end, err := b.onFake(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	before, last := 0, 0.0
	for _, n := range b.serveOptions.fake {
		if err := s.drop(before, n, b.image); err != nil {
			return nil, err
		}
		if err := s.await(ctx, client, n); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, s.tail())
		}
		u, err := s.watchIdle(ctx, b.serveOptions.idle)
		if err != nil {
			return nil, err
		}
		target := 0.0
		if n == 500 {
			target = maxFakeMemory
		}
		rows = append(rows, greatestOf("private memory, "+strconv.Itoa(n)+" pods on the fake", "MB", u.memory, target, ""))
		if before > 0 {
			rows = append(rows, serveRow{Name: fmt.Sprintf("… a pod, from %d to %d", before, n), Unit: "KB",
				Value: 1000 * (u.memory.median() - last) / float64(n-before)})
		}
		before, last = n, u.memory.median()
	}
	return rows, nil
}
