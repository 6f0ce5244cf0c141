// Package discover reads the facts of this host: the machine, its network,
// its control groups, its container runtime and the pods on it. It is the only
// reader of what a plan is made from; planning itself takes host.Facts.
package discover

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/nodeconfig"
)

// Options say which of the costly facts are wanted.
type Options struct {
	// Listeners asks for all sockets that hold a port.
	Listeners bool
	// Ports are the ports of the host that a pod asks for. If there are any,
	// the listeners are read, and the processes that own these ports named.
	Ports []host.HostPort
	// SeccompProfiles are the files that a pod names, below the directory of
	// profiles.
	SeccompProfiles []string
	// Images are those that a pod names, with tag or digest.
	Images []string
}

// machine reads the files of one machine. Root is "/" but in tests.
type machine struct {
	root string
}

func (m machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.root}, elem...)...)
}

// Read takes a snapshot of the host. The runtime is asked while the rest is
// read; a nil client leaves the runtime and its pods out. An error is a
// *problem.Error of kind Runtime that says what to do.
func Read(ctx context.Context, client *cri.Client, s nodeconfig.Settings, o Options) (host.Facts, error) {
	return machine{root: "/"}.read(ctx, client, s, o)
}

func (m machine) read(ctx context.Context, client *cri.Client, s nodeconfig.Settings, o Options) (host.Facts, error) {
	facts, down, unread := m.gather(ctx, client, s, o)
	switch {
	case down != nil:
		return host.Facts{}, down // a runtime that is down is one message, not four
	case len(unread) > 0:
		return host.Facts{}, unread[0]
	}
	return facts, nil
}

// gather reads what it can. Down is why the runtime tells nothing, unread is what
// went wrong with the rest.
func (m machine) gather(ctx context.Context, client *cri.Client, s nodeconfig.Settings, o Options) (facts host.Facts, down error, unread []error) {
	rooms, roomsErr := readRooms(s.Layout())
	var rt runtimeFacts
	var stored map[string]host.Pod
	// Each part fills fields of its own.
	unread = together(
		func() error { rt, down = readRuntime(ctx, client); return nil },
		func() (err error) { stored, err = readStored(s.Layout()); return },
		func() (err error) { facts.UserNS, err = UserNS(s.Layout()); return },
		func() error { facts.Images = readImages(ctx, client, o.Images); return nil },
		func() error { return m.readMachine(&facts, s) },
		func() error { return m.readNetwork(&facts, s) },
		func() error { return m.readCgroup(&facts.Cgroup) },
		func() (err error) { facts.Kubelet, err = m.findKubelet(client); return },
		func() (err error) {
			if o.Listeners || len(o.Ports) > 0 {
				facts.Listeners, facts.SCTP, err = m.readListeners(o.Ports)
			}
			return err
		},
	)
	facts.SeccompProfiles = readSeccomp(s.Layout().Seccomp(), o.SeccompProfiles)
	facts.Runtime, facts.ImageFS = rt.runtime, rt.imageFS
	if len(s.Devices) > 0 {
		facts.CDI = m.readCDI(rt.runtime.CDIDirs)
	}
	m.chooseDriver(&facts.Cgroup, s, rt.runtime.CgroupSaid)
	if roomsErr != nil {
		unread = append(unread, roomsErr)
	}
	var err error
	if facts.Pods, err = readPods(rt.sandboxes, rooms, stored, s.Layout()); err != nil {
		unread = append(unread, err)
	}
	facts.UserNS = othersUserNS(facts.UserNS, facts.Pods)
	return facts, down, unread
}

// together runs the parts at once and returns the errors of those that have one,
// in their order.
func together(parts ...func() error) []error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { errs[i] = part() })
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}
