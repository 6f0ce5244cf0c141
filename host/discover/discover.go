// Package discover reads the facts about this host: those about the machine, its network, its
// cgroups, its container runtime, and the pods on it. No other package reads the inputs of a
// plan, because planning takes host.Facts.
package discover

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
)

// Options select facts that take long to read.
type Options struct {
	// Listeners makes Read return all sockets that occupy a port.
	Listeners bool
	// Ports are the host ports that a pod requests. If there are any, Read also returns the
	// listeners. It adds the names of the processes that listen on these ports.
	Ports []host.HostPort
	// SeccompProfiles are the profiles that a pod specifies, as paths relative to the profile
	// directory.
	SeccompProfiles []string
	// HostPaths are the paths in the volumes of pods.
	HostPaths []string
	// Mounts makes Read return the mounts that contain HostPaths.
	Mounts bool
	// Images are the images that a pod specifies, with tag or digest.
	Images []string
	// Ahead contains facts that podrun is already reading; nil if there are none.
	Ahead *Ahead
	// Kubelet makes Read search for a kubelet that may remove podrun's pods.
	Kubelet bool
}

// machine reads the files of one machine for one call. Its reads fail once ctx is done. root is
// "/", except in tests.
type machine struct {
	ctx  context.Context
	root string
}

// Each of these types reads one part of the facts.
type (
	node          struct{ machine } // names, capacity and security modules
	cgroups       struct{ machine }
	sockets       struct{ machine } // listening sockets and the processes that own them
	kubeletSearch struct{ machine }
	networkConfig struct{ machine } // the configuration of network plugins
	crio          struct{ machine } // CRI-O's configuration
	checkup       struct{ machine } // what only doctor checks
)

func (m machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.root}, elem...)...)
}

// maxProcFile limits a file in /proc, in bytes. The lists of mounts and of sockets are by far
// the largest ones. 64 MiB are enough for several 100,000 entries of either list.
const maxProcFile = 64 << 20

// maxConfig limits a configuration file of the host, in bytes. It is large because /etc/hosts
// may have several MiB if it blocks advertising hosts.
const maxConfig = 16 << 20

// maxState limits a state file of a pod in bytes, except the checkpoint.
const maxState = 4 << 20

// read reads a file of the machine. If the file has more than limit bytes, that is an error.
func (m machine) read(limit int64, elem ...string) ([]byte, error) {
	return hostfile.Read(m.ctx, m.path(elem...), limit)
}

// Read returns a snapshot of the host. It queries the runtime concurrently. If client is nil,
// it skips the runtime and its pods. Errors are *problem.Error of kind Runtime with a hint.
func Read(ctx context.Context, client *cri.Client, s nodeconfig.Settings, o Options) (host.Facts, error) {
	return readFacts(machine{ctx: ctx, root: "/"}, client, s, o)
}

func readFacts(m machine, client *cri.Client, s nodeconfig.Settings, o Options) (host.Facts, error) {
	facts, down, unread := gather(m, client, s, o)
	switch {
	case down != nil:
		// There is one message for all failed calls to the runtime.
		return host.Facts{}, down
	case len(unread) > 0:
		return host.Facts{}, unread[0]
	}
	return facts, nil
}

// gather reads as much as it can. If the runtime does not respond, down is the reason; unread
// contains all other errors.
func gather(m machine, client *cri.Client, s nodeconfig.Settings, o Options) (facts host.Facts, down error, unread []error) {
	state := podState{m, s.Layout(), &unreadable{}}
	reserved, reservedErr := state.readReservations()
	locked := host.Facts{Pressure: state.readConditions(time.Now()), ShuttingDown: state.shuttingDown()}
	a := o.Ahead
	if a == nil {
		a = begin(m, client, s, o.Kubelet, true)
	}
	asked, cancel := a.whileAnswering(m.ctx)
	defer cancel()
	var sandboxes []*runtimeapi.PodSandbox
	var stored storedPods
	var unlisted error
	// Each function sets different fields.
	unread = runAll(
		func() error {
			// Otherwise, the sandboxes are listed with the other facts.
			if o.Ahead != nil && client != nil {
				sandboxes, unlisted = client.ListPodSandbox(asked, nil)
			}
			return nil
		},
		func() (err error) { stored, err = state.readStored(); return },
		func() error { locked.Images = readImages(m.ctx, client, o.Images); return nil },
		func() (err error) {
			if o.Listeners || len(o.Ports) > 0 {
				locked.Listeners, locked.SCTP, err = sockets{m}.readListeners(o.Ports)
			}
			return err
		},
	)
	if facts, down = a.read(m.ctx); down != nil {
		return facts, down, nil
	}
	if o.Ahead == nil {
		sandboxes = a.sandboxes
	}
	down = downError(m, client, a, unlisted)
	unread = append(unread, a.unread...)
	facts.Pressure, facts.ShuttingDown, facts.Images, facts.Listeners, facts.SCTP = locked.Pressure, locked.ShuttingDown, locked.Images, locked.Listeners, locked.SCTP
	facts.SeccompProfiles = m.readSeccomp(s.Layout().Seccomp(), o.SeccompProfiles)
	facts.RealPaths, facts.UnresolvedPaths = m.volumePaths(o.HostPaths, s)
	var pathsErr error
	if facts.Paths, pathsErr = m.readPaths(o.HostPaths, o.Mounts); pathsErr != nil {
		unread = append(unread, pathsErr)
	}
	if len(s.Devices) > 0 {
		facts.CDI = m.readCDI(facts.Runtime.CDIDirs)
	}
	cgroups{m}.chooseDriver(&facts.Cgroup, s, facts.Runtime.ReportedDriver)
	if reservedErr != nil {
		unread = append(unread, reservedErr)
	}
	facts.Pods = state.readPods(sandboxes, reserved, stored.byUID)
	facts.PodDirs = stored.dirs
	state.recoverUserNS(client, stored.userNS, sandboxes)
	facts.UserNS = state.addForeignUserNS(stored.userNS, facts.Pods)
	facts.Unreadable = state.unreadable.sorted()
	if err := state.unreadable.incomplete(); err != nil {
		unread = append(unread, err)
	}
	broken := slices.ContainsFunc(facts.Pods, func(p host.Pod) bool { return p.Broken != "" })
	if m.ctx.Err() != nil && (broken || len(facts.Unreadable) > 0) {
		// After a timeout, a file that was not read must not be reported as corrupt.
		unread = append(unread, factError("read the state of pods", context.Cause(m.ctx), ""))
	}
	return facts, down, unread
}

// downError returns the error for a runtime that did not respond, or that could not list its
// sandboxes.
func downError(m machine, client *cri.Client, a *Ahead, unlisted error) error {
	if a.down != nil || unlisted == nil {
		return a.down
	}
	return answerError(m.ctx, client, unlisted)
}

// endpointOf returns a client's endpoint. If client is nil, it returns "".
func endpointOf(client *cri.Client) string {
	if client == nil {
		return ""
	}
	return client.Endpoint()
}

// runAll calls the parts concurrently, and returns their errors in the order of the parts.
func runAll(parts ...func() error) []error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { errs[i] = part() })
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}
