package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/bundle/podrun-rootless/gateway"
	"github.com/podrun/podrun/bundle/podrun-rootless/hostports"
)

func socketPath(runDir string) string { return filepath.Join(runDir, "ports.sock") }
func portsPath(runDir string) string  { return filepath.Join(runDir, "ports.json") }

// setup prepares the namespaces, starts the services, and reports ready. It returns only an error, or
// after a signal.
func setup(o options, lock *os.File) error {
	defer lock.Close() // a file without a use would be closed earlier
	files := raiseFileLimit()
	if !o.inside {
		if err := setupMounts(); err != nil {
			return err
		}
		fault("mounts/after")
	}
	node, err := openNode(o.runDir)
	if err != nil {
		return err
	}
	fault("netns/after")
	h, err := createUplink(node)
	if err != nil {
		return err
	}
	fault("uplink/after")
	failed := make(chan error, 1)
	if _, err := gateway.Start(gateway.Options{
		Socket: h.socket, MAC: h.mac, NodeMAC: h.node, Files: files, AllowMetadata: o.allowMetadata, Resolvers: readResolvers,
		Failed: func(err error) { failed <- err },
	}); err != nil {
		return err
	}
	ports, err := startPorts(o, node, files)
	if err != nil {
		return err
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	if err := filterCalls(); err != nil {
		return err
	}
	r, err := newRecord(o, []string{gateway.Address4.String()})
	if err != nil {
		return err
	}
	fault("record/before")
	if err := r.write(o.runDir); err != nil {
		return err
	}
	fault("record/after")
	if err := flock(lock, unix.LOCK_SH); err != nil { // see acquireLock
		return err
	}
	report(r.message())
	defer ports.Close()
	return await(failed)
}

// startPorts opens the socket for host ports, and, inside, the recorded ports. A new U has no pods, so
// the ports of an earlier one are removed.
func startPorts(o options, node *thread, files int) (interface{ Close() error }, error) {
	save := func(ports []hostports.Port) error {
		data, err := json.Marshal(map[string]any{"schemaVersion": schemaVersion, "ports": ports})
		if err != nil {
			return err
		}
		fault("ports/before")
		defer fault("ports/after")
		return replaceFile(portsPath(o.runDir), data)
	}
	socket := func(family, kind int) (fd int, err error) {
		err = node.do(func() error {
			fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			return err
		})
		return fd, err
	}
	forwarder := hostports.New(socket, save, files)
	if o.inside {
		recorded, err := readPorts(o.runDir)
		if err != nil {
			return nil, err
		}
		forwarder.Restore(recorded)
	} else if err := save([]hostports.Port{}); err != nil {
		return nil, err
	}
	l, err := hostports.Listen(socketPath(o.runDir))
	if err != nil {
		return nil, fmt.Errorf("listen on the socket for host ports: %w", err)
	}
	go forwarder.Serve(l)
	return l, nil
}

func readPorts(runDir string) ([]hostports.Port, error) {
	data, err := os.ReadFile(portsPath(runDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Ports []hostports.Port `json:"ports"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", portsPath(runDir), err)
	}
	return file.Ports, nil
}

// readResolvers reads the host's resolvers for each query: laptops change networks.
func readResolvers() []netip.Addr {
	data, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		data = nil
	}
	return gateway.ParseResolvers(string(data))
}

// raiseFileLimit permits as many open files as the user may have, and returns their number.
func raiseFileLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
		limit = raised
	}
	return int(min(limit.Cur, 1<<20))
}

// dropPrivileges removes all capabilities in U from all threads: the thread in N is there already. The
// process is not dumpable: otherwise a container with hostPID and the user ID 0 of U could trace it,
// because it has no capability that the container lacks.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	// Otherwise a program that user 0 of U executes would have all capabilities again.
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return nil
}

// await waits for a signal or an error. A terminal's hangup does not end pods.
func await(failed <-chan error) error {
	signal.Ignore(unix.SIGHUP)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	select {
	case <-signals:
		return nil
	case err := <-failed:
		return err
	}
}
