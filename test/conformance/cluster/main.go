// Cluster runs a Kubernetes control plane on loopback, for the tests of podrun-node:
//
//	cluster -dir DIR -bin DIR [-port 26443] [-node podrun-node] [-node-validity 8760h]
//	cluster -dir DIR -await-node 2m [-node podrun-node]
//
// The second form waits until the node is ready, in a cluster that the first form has started.
//
// The first form runs etcd in its own process, and kube-apiserver, kube-controller-manager and
// kube-scheduler of -bin as child processes. It prints "ready" when the API server is ready,
// and runs until it receives INT or TERM. The child processes end with it, however it ends.
// Several clusters can run at once, with different directories and ports.
//
// In -dir it writes:
//
//	admin.kubeconfig   a user in the group system:masters
//	node.kubeconfig    the user system:node:NAME in the group system:nodes. Its client
//	                   certificate and key are in the file to which kubelet-client-current.pem
//	                   refers, as on a host that kubeadm has joined. The node can
//	                   renew the certificate; -node-validity is the validity of the first
//	                   certificate and of renewed ones
//	ca.crt             signs the certificate of the API server and all client certificates,
//	                   also the one with which the API server connects to nodes
//	etcd               the data. It survives a restart, like the CA; other credentials are
//	                   new after each start
//	NAME.log           the output of each child process
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// config is the command line.
type config struct {
	dir, bin, node string
	port           int
	nodeValidity   time.Duration
}

// etcd uses the two ports after that of the API server.
func (c config) etcdPort() int { return c.port + 1 }
func (c config) peerPort() int { return c.port + 2 }

func (c config) file(name string) string { return filepath.Join(c.dir, name) }

// A child process receives its parent-death signal when the thread that started it ends. The main
// thread ends only with the process.
func init() { runtime.LockOSThread() }

func main() {
	var c config
	flag.StringVar(&c.dir, "dir", "", "`directory` for data, credentials and logs")
	flag.StringVar(&c.bin, "bin", "", "`directory` of kube-apiserver, kube-controller-manager and kube-scheduler")
	flag.StringVar(&c.node, "node", "podrun-node", "`name` of the node to which node.kubeconfig belongs")
	flag.IntVar(&c.port, "port", 26443, "`port` of the API server; etcd uses the next two")
	flag.DurationVar(&c.nodeValidity, "node-validity", 365*24*time.Hour, "`duration` for which a client certificate of the node is valid")
	timeout := flag.Duration("await-node", 0, "start nothing: wait for this `duration` until the node of the cluster in -dir is ready")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := run
	if *timeout > 0 {
		do = func(ctx context.Context, c config) error { return awaitNode(ctx, c, *timeout) }
	}
	if err := do(ctx, c); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	if c.dir == "" || c.bin == "" {
		return fmt.Errorf("-dir and -bin are required")
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	var err error
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	if err := writeCredentials(c); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	store, err := startEtcd(ctx, c)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer store.Close()
	children := newProcesses(c)
	defer children.stop()
	if err := children.start("kube-apiserver", apiServerFlags(c)...); err != nil {
		return err
	}
	if err := children.awaitAPIServer(ctx); err != nil {
		return err
	}
	if err := permitRenewal(ctx, c); err != nil {
		return fmt.Errorf("permit nodes to renew their certificates: %w", err)
	}
	if err := children.start("kube-controller-manager", controllerFlags(c)...); err != nil {
		return err
	}
	if err := children.start("kube-scheduler", schedulerFlags(c)...); err != nil {
		return err
	}
	fmt.Println("ready")
	select {
	case <-ctx.Done():
		return nil
	case err := <-children.exited:
		return err
	}
}
