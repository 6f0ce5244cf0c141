package servicesync

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox/cni"
	"github.com/podrun/podrun/service"
	"github.com/podrun/podrun/volume"
)

// Sync updates the names in the pods' hosts files and the network's rules to match the
// Services and the pods. It is idempotent. On a host without Services, it does nothing. The problems are
// those of Services that this host cannot provide, which do not affect the others.
func Sync(ctx context.Context, n *node.Node) (problem.List, error) {
	if !store.HasServices(n.Layout()) {
		return nil, nil
	}
	lock, err := lockServices(ctx, n)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	return syncServices(ctx, n)
}

// SyncAndWarn is Sync for a command that holds the lock of lockServices: it warns about the Services that this host cannot provide.
func SyncAndWarn(ctx context.Context, n *node.Node) error {
	problems, err := syncServices(ctx, n)
	for _, p := range problems {
		n.WarnOnce(p)
	}
	return err
}

// syncServices implements Sync. The lock of lockServices must be held. It reads its input
// under the lock, so that an older synchronization cannot overwrite a newer one.
func syncServices(ctx context.Context, n *node.Node) (problem.List, error) {
	records, faults, err := readServices(n)
	if err != nil {
		return nil, serviceError("", err)
	}
	views, err := lookup.Pods(ctx, n, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	pods := endpointPods(n, views)
	services, problems, err := currentServices(ctx, n, records, faults)
	if err != nil {
		return nil, err
	}
	problems = append(problems, omitted(n, services, pods)...)
	if observe := n.Observer.Unserved; observe != nil {
		observe(service.Unserved(services, pods))
	}
	faultpoint.At("services/names")
	names, _ := service.Names(services, pods) // e.omitted reports the others
	err = syncNames(ctx, n, names, views)
	answered := faultpoint.Call("services/rules")
	err = errors.Join(err, syncRules(ctx, n, services, pods))
	answered()
	if err != nil || len(records) > 0 || len(faults) > 0 {
		return problems, err
	}
	// This must be the last step, because podrun synchronizes again as long as one of the files exists.
	if err := store.RemoveServiceState(n.Layout()); err != nil {
		return nil, serviceError("", err)
	}
	return nil, nil
}

// omitted returns the problems of Services that exceed the limits of the names and, if the network belongs to
// podrun, those of the network.
func omitted(n *node.Node, services []*corev1.Service, pods []service.Pod) (out problem.List) {
	add := func(all map[string]string, effect, hint string) {
		for key, why := range all {
			out = append(out, problem.Problem{Object: "service " + key, Warning: true, Message: why + ": " + effect, Hint: hint})
		}
	}
	_, unnamed := service.Names(services, pods)
	add(unnamed, "pods do not resolve its name", "let it select fewer pods, or delete other Services")
	if ownsNetwork(n) {
		add(service.Omitted(services, pods), "podrun does not forward its ports", "reduce its ports, or delete other Services")
	}
	slices.SortFunc(out, func(a, b problem.Problem) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Message, b.Message))
	})
	return out
}

// readServices is store.ReadServices, and warns about the records that podrun cannot use.
func readServices(n *node.Node) ([]store.ServiceRecord, []store.ServiceFault, error) {
	records, faults, err := store.ReadServices(n.Layout())
	for _, f := range faults {
		w := f.Warning()
		w.Object = "service " + f.ID.String()
		w.Hint = "apply the Service again, or delete it"
		if f.State != statefile.Corrupt {
			w.Hint = "make the file readable, or delete the Service"
		}
		n.WarnOnce(w)
	}
	return records, faults, err
}

// currentServices returns the Services with the virtual IPs of the current network. It assigns virtual
// IPs to Services that were applied while the pods used the network of another runtime, and to a Service whose
// address another one got while its record was unreadable. The problems are those of Services that get no virtual
// IP.
func currentServices(ctx context.Context, n *node.Node, records []store.ServiceRecord, faults []store.ServiceFault) (all []*corev1.Service, problems problem.List, err error) {
	if len(records) == 0 {
		// Another synchronization has removed the ranges; they must not be recorded again.
		return nil, nil, nil
	}
	ranges, err := serviceRanges(ctx, n)
	if err != nil {
		return nil, nil, serviceError("", err)
	}
	all = make([]*corev1.Service, len(records))
	for i, r := range records {
		all[i] = r.Service
	}
	hidden := partialServices(faults)
	for i, s := range all {
		switch {
		case !service.HasVirtualIP(s):
		case len(ranges) == 0:
			all[i] = s.DeepCopy()
			all[i].Spec.ClusterIP = ""
			all[i].Spec.ClusterIPs = nil
		case len(s.Spec.ClusterIPs) == 0 || service.Conflicts(s, all[:i]):
			others := slices.Concat(all[:i], all[i+1:], hidden)
			next, err := service.Assign(s, nil, others, ranges, portsInUse(ctx, n, s))
			if err == nil {
				err = store.WriteService(n.Layout(), store.ServiceRecord{Service: next, Origin: records[i].Origin})
			}
			if err != nil {
				problems = append(problems, problem.WarningOf(serviceError(service.Key(s), err)))
				continue
			}
			all[i] = next
		}
	}
	return all, problems, nil
}

// servicePods returns the facts about all pods that are needed to compute endpoints.
func servicePods(ctx context.Context, n *node.Node) ([]service.Pod, error) {
	views, err := lookup.Pods(ctx, n, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	return endpointPods(n, views), nil
}

// endpointPods returns the facts about the pods that may be endpoints.
func endpointPods(n *node.Node, views []lookup.View) []service.Pod {
	supervised := n.Supervised()
	var out []service.Pod
	for _, v := range views {
		if v.Known.Pod == nil || v.Object.Status.Phase == corev1.PodSucceeded || v.Object.Status.Phase == corev1.PodFailed {
			continue // as in a cluster, a pod that has ended is not an endpoint
		}
		out = append(out, servicePod(v, supervised))
	}
	return out
}

// servicePod returns the facts about one pod. Without supervision, no process runs readiness probes,
// and earlier results may be outdated; a pod then counts as ready when its containers run.
func servicePod(v lookup.View, supervised bool) service.Pod {
	spec, status := v.Object.Spec, v.Object.Status
	p := service.Pod{Namespace: v.ID.Namespace, Name: v.ID.Name, UID: v.ID.UID, Labels: v.Object.Labels,
		Ready: podutil.IsPodReady(v.Object), Terminating: v.Stopped || v.Deletion != nil || v.Object.DeletionTimestamp != nil,
		Hostname: spec.Hostname, Subdomain: spec.Subdomain}
	if !supervised {
		p.Ready = status.Phase == corev1.PodRunning && len(status.ContainerStatuses) == len(spec.Containers) &&
			!slices.ContainsFunc(status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
	}
	for _, ip := range status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			p.IPs = append(p.IPs, addr)
		}
	}
	for _, c := range spec.InitContainers {
		if podutil.IsRestartableInitContainer(&c) {
			p.Ports = append(p.Ports, c.Ports...)
		}
	}
	for _, c := range spec.Containers {
		p.Ports = append(p.Ports, c.Ports...)
	}
	return p
}

// syncNames writes the names to the file for pods that will start, and then to the hosts files of all
// pods. When podrun starts a container, it holds the same lock while it writes the hosts file, so the
// file is complete either before or after the synchronization.
func syncNames(ctx context.Context, n *node.Node, names []service.Name, views []lookup.View) error {
	lock, err := store.Lock(ctx, n.Layout().Locks().ServiceNames(), n.Holder(), nil)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := recordNames(n, names); err != nil {
		return serviceError("", err)
	}
	ids, err := store.StoredPods(n.Layout())
	if err != nil {
		return serviceError("", err)
	}
	specs := map[string]*corev1.Pod{}
	for _, v := range views {
		specs[v.ID.UID] = v.Known.Pod
	}
	var errs []error
	for _, id := range ids {
		faultpoint.At("services/hosts")
		object := specs[id.UID]
		if object == nil {
			// The pod may have been created after the views were read.
			c, err := store.ViewCheckpoint(n.Layout(), id.UID)
			if err != nil || c == nil || c.Pod == nil {
				continue // the commands that act on the pod report the error
			}
			object = c.Pod
		}
		errs = append(errs, syncHosts(n, id, object, names))
	}
	return errors.Join(errs...)
}

// syncHosts updates the names of Services in a pod's hosts file. If podrun cannot use the file because of
// its content or its type, or because the disk cannot read it, other pods are not affected, and another attempt
// would not help: syncHosts only warns.
func syncHosts(n *node.Node, id identity.Pod, object *corev1.Pod, names []service.Name) error {
	if !dns.UsesClusterDNS(object) {
		names = nil // an older release may have written names
	}
	domain := service.Domain(n.Settings.ClusterDomain)
	err := volume.ChangeHosts(n.Layout(), id.UID, service.HostsMark, func(base string) string {
		return service.Section(base, id.Namespace, domain, names)
	})
	if err == nil {
		return nil
	}
	failed := &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: "update the names of Services", Err: err}
	if !errors.Is(err, volume.ErrHostsTooLarge) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EIO) {
		return failed
	}
	if len(names) > 0 {
		n.WarnOnce(problem.WarningOf(failed))
	}
	return nil
}

// recordNames writes the names for pods that will start. If podrun cannot replace a file that it cannot use, it
// only warns: pods then get their names from the next synchronization.
func recordNames(n *node.Node, names []service.Name) error {
	have, fault, err := store.ReadServiceNames(n.Layout())
	switch {
	case err != nil:
		return err
	case fault == nil && slices.Equal(have, names):
		return nil
	case fault != nil:
		n.WarnOnce(fault.Warning())
	}
	err = store.WriteServiceNames(n.Layout(), names)
	if fault != nil && err != nil {
		if !statefile.IsNewer(err) {
			n.WarnOnce(problem.WarningOf(err))
		}
		return nil
	}
	return err
}

// syncRules sets the rules of the network, if the network belongs to podrun.
func syncRules(ctx context.Context, n *node.Node, services []*corev1.Service, pods []service.Pod) error {
	if !ownsNetwork(n) {
		return nil
	}
	layout := runtimeLayout(n)
	network, ok := ownruntime.Network(ctx, layout)
	if !ok {
		if len(services) == 0 {
			return nil
		}
		return oldNetwork(layout)
	}
	read := func(ctx context.Context) ([]netip.Prefix, error) { return serviceRanges(ctx, n) }
	if len(services) == 0 {
		// Another synchronization may have removed the ranges; they must not be recorded again.
		read = func(context.Context) ([]netip.Prefix, error) {
			ranges, _, err := store.ReadServiceRanges(n.Layout())
			return ranges, err
		}
	}
	ranges, err := read(ctx)
	if err != nil {
		return serviceError("", err)
	}
	subnets, err := embedded.ReadSubnets(ctx, layout)
	if err != nil {
		return serviceError("", err)
	}
	table := service.NewTable(layout.Bridge(), ranges, subnets, services, pods)
	input, err := table.JSON()
	if err != nil {
		return serviceError("", err)
	}
	_, err = network.SetServices(ctx, layout.Bridge(), input, table.Has(true), table.Has(false))
	switch {
	case errors.Is(err, cni.ErrNoServices) && len(table.Ports) == 0:
		return nil
	case errors.Is(err, cni.ErrNoServices):
		return oldNetwork(layout)
	case err != nil:
		return &problem.Error{Kind: problem.Runtime, Object: "network " + layout.Bridge(), Err: err}
	}
	return nil
}

func oldNetwork(layout embedded.Layout) error {
	return &problem.Error{Kind: problem.Runtime, Object: "network " + layout.Bridge(), Err: cni.ErrNoServices,
		Hint: "run 'podrun runtime upgrade', and then this command again"}
}
