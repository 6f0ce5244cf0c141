package discover

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// ReadBasics reads the few facts that are required to show and remove pods: the runtime, the
// cgroup mounts and driver, and the node's addresses if they are known. It reads no file of any
// pod, because a corrupt file must never prevent a delete. It returns an error only if the
// runtime does not answer, or if it cannot find the cgroups.
func ReadBasics(ctx context.Context, client *cri.Client, s nodeconfig.Settings) (host.Facts, error) {
	m := machine{ctx: ctx, root: "/"}
	var facts host.Facts
	var down, mounts error
	runAll(
		func() error { facts.Runtime, down = readVersion(ctx, client); return nil },
		yielding(func() error { mounts = cgroups{m}.readCgroup(&facts.Cgroup); return nil }),
		yielding(func() error {
			// Without an address, hooks of hostNetwork pods have no default host, and the
			// status has no host IP.
			facts.NodeIPs, facts.DefaultRoute, _ = nodeAddresses(s.NodeIP)
			return nil
		}),
	)
	if down != nil {
		return host.Facts{}, down
	}
	if mounts != nil {
		return host.Facts{}, mounts
	}
	cgroups{m}.chooseDriver(&facts.Cgroup, s, facts.Runtime.ReportedDriver)
	return facts, nil
}

// ReadCgroup reads the cgroup mounts, and chooses the driver without asking the runtime.
func ReadCgroup(ctx context.Context, s nodeconfig.Settings) (host.Cgroup, error) {
	m := machine{ctx: ctx, root: "/"}
	var c host.Cgroup
	if err := (cgroups{m}).readCgroup(&c); err != nil {
		return host.Cgroup{}, err
	}
	cgroups{m}.chooseDriver(&c, s, "")
	return c, nil
}

// readVersion requests the runtime's version and features. It omits features that the runtime,
// although it responds, does not report.
func readVersion(ctx context.Context, client *cri.Client) (host.Runtime, error) {
	var version *runtimeapi.VersionResponse
	var status *runtimeapi.StatusResponse
	var config *runtimeapi.RuntimeConfigResponse
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	var down error
	runAll(
		func() error {
			if version, down = Reach(ctx, client); down != nil {
				// The other calls need not wait for their longer timeouts.
				cancel()
			}
			return nil
		},
		func() (err error) { status, err = client.Status(asked, true); return },
		func() (err error) { config, err = client.RuntimeConfig(asked); return },
	)
	if down != nil {
		return host.Runtime{}, down
	}
	out := describe(version, status, config)
	out.Endpoint = client.Endpoint()
	return out, nil
}
