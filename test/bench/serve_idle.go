package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/podrun/podrun/test/bench/result"
)

// probedPods is the number of pods of an idle `podrun serve`, each with a readiness and a liveness probe.
const probedPods = 50

// measureIdle runs pods with HTTP probes, which have the default period of 10 s, on the real runtime.
// When serve is idle, it measures its CPU time, its system calls and its private memory. The server that the
// probes connect to runs in this process.
func (b *serveBench) measureIdle(ctx context.Context) (rows []serveRow, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	// Serve returns when the server is closed.
	go server.Serve(listener)
	defer func() { err = errors.Join(err, server.Close()) }()
	s, err := b.serve("idle", b.endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.remove(ctx)) }()
	for i := range probedPods {
		if _, err := s.put(probed(fmt.Sprintf("probed-%d", i), b.image, listener.Addr().(*net.TCPAddr).Port)); err != nil {
			return nil, err
		}
	}
	if err := s.await(ctx, b.client, probedPods); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.tail())
	}
	u, calls, err := s.watchCalls(ctx, b.serveOptions.idle)
	if err != nil {
		return nil, err
	}
	goal := func(name string) float64 { return result.Find(name, "").Goal }
	return []serveRow{
		{Name: "idle: CPU time", Unit: "s", Value: u.processor / 100 * 60, Target: goal("idle: CPU time")}, // a minute
		{Name: "idle: system calls", Value: calls, Target: goal("idle: system calls")},                     // a second
		greatestOf("idle: private memory", "MB", u.memory, goal("idle: private memory"), ""),
	}, nil
}

// probed returns a pod whose container has a readiness and a liveness probe of a port of this host.
func probed(name, image string, port int) manifest {
	m := pod(name, image, 0, 1)
	m.YAML = strings.Replace(m.YAML, "restartPolicy: Never", "restartPolicy: Always", 1)
	for _, kind := range []string{"readinessProbe", "livenessProbe"} {
		m.YAML += fmt.Sprintf("    %s: {httpGet: {host: 127.0.0.1, port: %d, path: /healthz}}\n", kind, port)
	}
	return m
}

// watchCalls is watchIdle, and returns also the number of system calls a second.
func (s *served) watchCalls(ctx context.Context, while time.Duration) (u usage, each float64, err error) {
	if err := sleep(ctx, settle); err != nil {
		return u, 0, err
	}
	counter, err := countSyscalls(s.cmd.Process.Pid)
	if err != nil {
		return u, 0, err
	}
	defer func() { err = errors.Join(err, counter.close()) }()
	begun := time.Now()
	if u, err = s.watchSettled(ctx, while); err != nil {
		return u, 0, err
	}
	calls, err := counter.count()
	return u, float64(calls) / time.Since(begun).Seconds(), err
}
