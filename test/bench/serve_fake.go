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

// measureFake runs an increasing number of pods under serve, and measures its memory for
// each number.
func (b *serveBench) measureFake(ctx context.Context) (rows []serveRow, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(b.podrun.dir, "fake.sock")
	fake := exec.Command(self, "-fake", socket)
	fake.Stderr = os.Stderr
	fake.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := fake.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fake.Process.Signal(syscall.SIGTERM), fake.Wait()) }()
	client, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := until(ctx, reactLimit, slowPoll, "for the fake runtime", func() (bool, error) {
		_, err := os.Stat(socket)
		return err == nil, nil
	}); err != nil {
		return nil, err
	}
	s, err := b.serve("fake", socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.remove(ctx)) }()
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
			target = maxFakeRSS
		}
		rows = append(rows, greatestOf("memory, "+strconv.Itoa(n)+" pods on the fake", "MB", u.memory, target, ""))
		if before > 0 {
			rows = append(rows, serveRow{Name: fmt.Sprintf("… a pod, from %d to %d", before, n), Unit: "KB",
				Value: 1000 * (u.memory.median() - last) / float64(n-before)})
		}
		before, last = n, u.memory.median()
	}
	return rows, nil
}
