package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// processes are the child processes. They are stopped in reverse order.
type processes struct {
	config  config
	running []*process
	exited  chan error // receives the result of the first process that exits
}

type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

func newProcesses(c config) *processes {
	return &processes{config: c, exited: make(chan error, 8)}
}

// start starts a program of -bin with its output in NAME.log. It must run on the main thread.
func (p *processes) start(name string, args ...string) error {
	log := p.config.file(name + ".log")
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(filepath.Join(p.config.bin, name), args...)
	command.Stdout, command.Stderr = output, output
	// A signal to the terminal's process group must not stop the API server before its clients.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	child := &process{command: command, ended: make(chan struct{})}
	p.running = append(p.running, child)
	go func() {
		p.exited <- fmt.Errorf("%s exited: %v; its output is in %s", name, command.Wait(), log)
		close(child.ended)
	}()
	return nil
}

// stop ends the processes. Their state is in etcd, so stop kills a process that does not end in
// time.
func (p *processes) stop() {
	for i := len(p.running) - 1; i >= 0; i-- {
		child := p.running[i]
		_ = child.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-child.ended:
		case <-time.After(5 * time.Second):
			_ = child.command.Process.Kill()
			<-child.ended
		}
	}
}

// awaitAPIServer waits until the API server reports that it is ready.
func (p *processes) awaitAPIServer(ctx context.Context) error {
	client, err := p.config.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case err := <-p.exited:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func apiServerFlags(c config) []string {
	return []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.etcdPort()),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port), "--advertise-address=127.0.0.1",
		// The API server listens on a loopback address. Pods cannot connect to it, so it has no
		// endpoints.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.97.0.0/24",
		"--client-ca-file=" + c.file("ca.crt"),
		"--tls-cert-file=" + c.file("apiserver.pem"), "--tls-private-key-file=" + c.file("apiserver.pem"),
		"--kubelet-client-certificate=" + c.file("kubelet-client.pem"), "--kubelet-client-key=" + c.file("kubelet-client.pem"),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + c.file("service-accounts.pem"),
		"--service-account-key-file=" + c.file("service-accounts.pem"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--anonymous-auth=false", "--allow-privileged=true", "--profiling=false",
	}
}

// controllers are the controllers that the specs and a node require.
var controllers = []string{
	"namespace-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
	"garbage-collector-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"pod-garbage-collector-controller", "resourcequota-controller",
	"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller",
	"certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller",
	"replicationcontroller-controller", "replicaset-controller", "deployment-controller", "job-controller",
}

func controllerFlags(c config) []string {
	return []string{
		"--kubeconfig=" + c.file("admin.kubeconfig"), "--leader-elect=false", "--secure-port=0",
		"--cluster-signing-cert-file=" + c.file("ca.crt"), "--cluster-signing-key-file=" + c.file("ca.pem"),
		"--cluster-signing-duration=" + c.nodeValidity.String(),
		"--root-ca-file=" + c.file("ca.crt"), "--controllers=" + strings.Join(controllers, ","),
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
}

func schedulerFlags(c config) []string {
	return []string{
		"--kubeconfig=" + c.file("admin.kubeconfig"), "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
}
