package servicesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/service"
)

// ServiceView is a Service as `podrun get` shows it.
type View struct {
	Service *corev1.Service
	Origin  string // path of the manifest file, if podrun serve defines the Service; "" if a command applied it
	Slices  []*discoveryv1.EndpointSlice
}

// ServiceChange is the outcome for one Service.
type Change struct {
	Namespace, Name string
	Outcome         string // created, configured, unchanged or deleted
}

// ServiceOptions are the options of ApplyServices.
type Options struct {
	// Origins are the manifest files of Services, by namespace/name. A Service without an entry
	// comes from a command.
	Origins map[string]string
	// RecordsOnly makes ApplyServices write only the records; the next synchronization updates
	// names and rules.
	RecordsOnly bool
	// If this host cannot provide some of the Services, Partial makes ApplyServices record the others. The
	// error names the Services that this host cannot provide.
	Partial bool
}

// ApplyServices records Services, with their virtual IPs and node ports, and synchronizes names and
// rules. It validates all Services before it writes the first record. The function undo restores
// the previous records; it is never nil. The error is of kind Refused if this host cannot provide
// one of the Services.
func Apply(ctx context.Context, n *node.Node, services map[string]*corev1.Service, o Options) (changes []Change, undo func() error, err error) {
	undo = func() error { return nil }
	if len(services) == 0 {
		return nil, undo, nil
	}
	lock, err := lockServices(ctx, n)
	if err != nil {
		return nil, undo, err
	}
	defer lock.Unlock()
	before, faults, err := readServices(n)
	if err != nil {
		return nil, undo, serviceError("", err)
	}
	ranges, err := serviceRanges(ctx, n)
	if err != nil {
		return nil, undo, serviceError("", err)
	}
	check := service.CheckLimits
	if o.Partial {
		check = service.CheckSize // the synchronization omits the Service, and get shows the reason
	}
	after, changes, refused := assignServices(ctx, n, services, before, faults, ranges, o.Origins, check)
	if refused != nil && !o.Partial {
		return nil, undo, refused
	}
	undo = func() error { return restoreServices(ctx, n, before, after) }
	for _, r := range after {
		if err := store.WriteService(n.Layout(), r); err != nil {
			return nil, undo, serviceError("", err)
		}
	}
	if o.RecordsOnly {
		return changes, undo, refused
	}
	return changes, undo, errors.Join(refused, SyncAndWarn(ctx, n))
}

// assignServices returns the records that must be written, and the changes of all Services. The error names
// the Services that this host cannot provide; the results contain only the others.
func assignServices(ctx context.Context, n *node.Node, services map[string]*corev1.Service, before []store.ServiceRecord, faults []store.ServiceFault, ranges []netip.Prefix, origins map[string]string, check func(*corev1.Service) error) (after []store.ServiceRecord, changes []Change, err error) {
	records := map[string]store.ServiceRecord{}
	for _, r := range before {
		records[service.Key(r.Service)] = r
	}
	hostPorts, err := hostPorts(n)
	if err != nil {
		return nil, nil, err
	}
	var all []*corev1.Service
	for _, s := range services {
		all = append(all, s)
	}
	used := withListeners(ctx, n, hostPorts, all...)
	var refused []error
	unusable := map[string]error{}
	for _, f := range faults {
		if f.Action == statefile.Refuse {
			unusable[f.ID.String()] = f.Fault
		}
	}
	hidden := partialServices(faults)
	for _, key := range slices.Sorted(maps.Keys(services)) {
		if err := unusable[key]; err != nil {
			refused = append(refused, &problem.Error{Kind: problem.Runtime, Object: "service " + key,
				Err: err, Hint: "make the file readable, or delete the Service"})
			continue
		}
		var previous *corev1.Service
		old, had := records[key]
		if had {
			previous = old.Service
		}
		others := slices.Clone(hidden)
		for other, r := range records {
			if other != key {
				others = append(others, r.Service)
			}
		}
		next, err := service.Assign(services[key], previous, others, ranges, used)
		if err == nil {
			err = cmp.Or(check(next), hostPorts.conflict(next))
		}
		if err == nil && !had && len(records) >= service.Max {
			err = fmt.Errorf("this root directory has %d Services, which is the maximum", service.Max)
		}
		if err != nil {
			refused = append(refused, &problem.Error{Kind: problem.Refused, Object: "service " + key, Err: err})
			continue
		}
		change := Change{Namespace: next.Namespace, Name: next.Name, Outcome: "created"}
		next.CreationTimestamp = metav1.Now()
		if had {
			next.CreationTimestamp = previous.CreationTimestamp
			change.Outcome = "configured"
		}
		r := store.ServiceRecord{Service: next, Origin: origins[key]}
		if had && equality.Semantic.DeepEqual(previous, next) {
			change.Outcome = "unchanged"
		}
		if change.Outcome != "unchanged" || old.Origin != r.Origin {
			after = append(after, r)
		}
		records[key] = r
		changes = append(changes, change)
	}
	return after, changes, errors.Join(refused...)
}

// usedPorts maps ports of the host to descriptions of their users.
type usedPorts map[service.NodePort]string

// hostPorts reads the host ports of all pods.
func hostPorts(n *node.Node) (usedPorts, error) {
	ids, err := store.StoredPods(n.Layout())
	if err != nil {
		return nil, serviceError("", err)
	}
	out := usedPorts{}
	for _, id := range ids {
		c, err := store.ViewCheckpoint(n.Layout(), id.UID)
		if err != nil || c == nil || c.Pod == nil {
			continue // the commands that act on the pod report the error
		}
		for _, p := range host.HostPorts(c.Pod) {
			out[service.NodePort{Port: p.Port, Protocol: p.Protocol}] = "a host port of the pod " + id.String()
		}
	}
	return out, nil
}

func (u usedPorts) conflict(s *corev1.Service) error {
	for _, port := range service.NodePorts(s) {
		if by := u[port]; by != "" {
			return fmt.Errorf("the node port %s is %s", port, by)
		}
	}
	return nil
}

// withListeners adds the ports on which processes of this host listen, if one of the Services has node ports.
// Sockets on loopback addresses do not count, because a node port does not receive their packets.
func withListeners(ctx context.Context, n *node.Node, used usedPorts, services ...*corev1.Service) usedPorts {
	var wanted []host.HostPort
	some := false
	for _, s := range services {
		some = some || s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
		for _, p := range service.NodePorts(s) {
			wanted = append(wanted, host.HostPort{Port: p.Port, Protocol: p.Protocol})
		}
	}
	if !some || !ownsNetwork(n) {
		return used
	}
	listeners, err := discover.Listeners(ctx, wanted)
	if err != nil {
		n.WarnOnce(problem.WarningOf(err))
		return used
	}
	used = maps.Clone(used)
	for _, l := range listeners {
		port := service.NodePort{Port: l.Port, Protocol: l.Protocol}
		if ip, err := netip.ParseAddr(l.IP); err != nil || ip.Unmap().IsLoopback() || used[port] != "" {
			continue
		}
		used[port] = "in use by a process of this host"
		if l.PID != 0 {
			used[port] = fmt.Sprintf("in use by process %d (%s)", l.PID, l.Process)
		}
	}
	return used
}

// portsInUse returns the ports of the host that are in use, for a Service that requires node ports.
func portsInUse(ctx context.Context, n *node.Node, s *corev1.Service) usedPorts {
	used, err := hostPorts(n)
	if err != nil {
		return nil // the next synchronization reports the error
	}
	return withListeners(ctx, n, used, s)
}

// restoreServices undoes the changes of ApplyServices, except for Services that another command has
// changed since.
func restoreServices(ctx context.Context, n *node.Node, before, after []store.ServiceRecord) error {
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout)
	defer cancel()
	lock, err := lockServices(ctx, n)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	now, _, err := store.ReadServices(n.Layout())
	if err != nil {
		return serviceError("", err)
	}
	find := func(list []store.ServiceRecord, r store.ServiceRecord) int {
		return slices.IndexFunc(list, func(o store.ServiceRecord) bool { return service.Key(o.Service) == service.Key(r.Service) })
	}
	var errs []error
	for _, r := range after {
		i := find(now, r)
		if i < 0 || !equality.Semantic.DeepEqual(now[i].Service.Spec, r.Service.Spec) {
			continue
		}
		if was := find(before, r); was >= 0 {
			errs = append(errs, store.WriteService(n.Layout(), before[was]))
		} else {
			errs = append(errs, store.RemoveService(n.Layout(), r.Service.Namespace, r.Service.Name))
		}
	}
	return errors.Join(errors.Join(errs...), SyncAndWarn(ctx, n))
}

// RemoveServiceRecords is DeleteServices without the synchronization: the next synchronization
// updates names and rules.
func DeleteRecords(ctx context.Context, n *node.Node, selected func(*corev1.Service, string) bool) ([]Change, error) {
	return Delete(ctx, n, selected, func(context.Context) error { return nil })
}

func Delete(ctx context.Context, n *node.Node, selected func(*corev1.Service, string) bool, end func(context.Context) error) (changes []Change, err error) {
	if !store.HasServices(n.Layout()) {
		return nil, nil
	}
	lock, err := lockServices(ctx, n)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	records, faults, err := store.ReadServices(n.Layout())
	if err != nil {
		return nil, serviceError("", err)
	}
	for _, f := range faults {
		// Of such a Service, only the name is known.
		records = append(records, store.ServiceRecord{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.ID.Namespace,
			Name:      f.ID.Name,
		}}})
	}
	for _, r := range records {
		if !selected(r.Service, r.Origin) {
			continue
		}
		if err := store.RemoveService(n.Layout(), r.Service.Namespace, r.Service.Name); err != nil {
			return changes, serviceError("", err)
		}
		changes = append(changes, Change{Namespace: r.Service.Namespace, Name: r.Service.Name, Outcome: "deleted"})
	}
	return changes, end(ctx)
}

// Services reads the Services of a namespace with their endpoints. The namespace "" means all
// namespaces.
func List(ctx context.Context, n *node.Node, namespace string) ([]View, error) {
	records, _, err := readServices(n)
	if err != nil {
		return nil, serviceError("", err)
	}
	if len(records) == 0 {
		return nil, nil
	}
	pods, err := servicePods(ctx, n)
	if err != nil {
		return nil, err
	}
	var all []*corev1.Service
	for _, r := range records {
		all = append(all, r.Service)
	}
	for _, p := range omitted(n, all, pods) {
		n.WarnOnce(p)
	}
	var out []View
	for _, r := range records {
		if namespace == "" || r.Service.Namespace == namespace {
			r.Service.APIVersion = "v1"
			r.Service.Kind = "Service"
			out = append(out, View{Service: r.Service, Origin: r.Origin, Slices: service.Slices(r.Service, pods, n.NodeName())})
		}
	}
	return out, nil
}

// ServiceTarget selects a pod of a Service, preferably a ready one, and replaces the ports of the Service
// with those of the pod.
func Target(ctx context.Context, n *node.Node, namespace, name string, ports []access.ForwardPort) (pod string, out []access.ForwardPort, err error) {
	records, _, err := store.ReadServices(n.Layout())
	if err != nil {
		return "", nil, serviceError("", err)
	}
	fail := func(kind problem.Kind, text, hint string) error {
		return &problem.Error{Kind: kind, Object: "service " + namespace + "/" + name, Err: errors.New(text), Hint: hint}
	}
	i := slices.IndexFunc(records, func(r store.ServiceRecord) bool { return r.Service.Namespace == namespace && r.Service.Name == name })
	if i < 0 {
		return "", nil, &problem.Error{Kind: problem.Failed, Object: "service " + namespace + "/" + name,
			Err: problem.ErrNotFound, Hint: "run 'podrun get svc -A' to list all Services"}
	}
	pods, err := servicePods(ctx, n)
	if err != nil {
		return "", nil, err
	}
	to, ok := service.Target(records[i].Service, pods)
	if !ok {
		return "", nil, fail(problem.Failed, "selects no pod with an address", "run 'podrun describe svc "+name+" -n "+namespace+"' to show its selector")
	}
	for _, p := range ports {
		number, ok := to.PortOf(records[i].Service, p.Remote)
		if !ok {
			return "", nil, fail(problem.Usage, "has no port "+p.Remote+" that the pod "+to.Name+" serves", "run 'podrun get svc "+name+" -n "+namespace+"' to list its ports")
		}
		if p.Local == 0 {
			p.Local, _ = strconv.Atoi(p.Remote)
		}
		p.Remote = strconv.Itoa(number)
		out = append(out, p)
	}
	return to.Name, out, nil
}

// UnforwardedPorts returns a warning for each Service with ports that have no effect, because podrun
// has no rules in the network of another runtime.
func UnforwardedPorts(ctx context.Context, n *node.Node, services map[string]*corev1.Service) (problem.List, error) {
	if len(services) == 0 || ownsNetwork(n) {
		return nil, nil
	}
	pods, err := servicePods(ctx, n)
	if err != nil {
		return nil, err
	}
	var out problem.List
	for _, s := range services {
		if ports := service.Unforwarded(s, pods); len(ports) > 0 {
			out = append(out, problem.Problem{Object: "Service " + service.Key(s), Field: "spec.ports", Warning: true,
				Message: "podrun does not forward ports in the network of this runtime: the name resolves to the pods, but these ports have no effect: " + strings.Join(ports, ", "),
				Hint:    "connect to the targetPort, or use podrun-bundle, whose network forwards them"})
		}
	}
	slices.SortFunc(out, func(a, b problem.Problem) int { return cmp.Compare(a.Object, b.Object) })
	return out, nil
}

// ServiceNotes returns warnings about settings of Services that have no effect on one host, and about names
// of Services that hide names of the internet.
func Notes(services map[string]*corev1.Service) (out problem.List) {
	out = append(out, publicNamespaces(services)...)
	for key, s := range services {
		for _, note := range service.Notes(s) {
			out = append(out, problem.Problem{Object: "Service " + key, Message: note, Warning: true})
		}
	}
	slices.SortFunc(out, func(a, b problem.Problem) int { return cmp.Compare(a.Object+a.Message, b.Object+b.Message) })
	return out
}

// publicNamespaces returns one warning for each namespace whose Services hide names of the internet.
func publicNamespaces(services map[string]*corev1.Service) (out problem.List) {
	first := map[string]*corev1.Service{}
	for _, s := range services {
		if have := first[s.Namespace]; service.IsTopLevelDomain(s.Namespace) && (have == nil || s.Name < have.Name) {
			first[s.Namespace] = s
		}
	}
	for namespace, s := range first {
		out = append(out, problem.Problem{Object: "namespace " + namespace, Warning: true,
			Message: fmt.Sprintf("is also a top-level domain: in pods with dnsPolicy ClusterFirst, the name %s.%s is the Service, not the host of the internet", s.Name, namespace),
			Hint:    "use a namespace with another name"})
	}
	return out
}

// lockServices acquires the lock for the records of Services and for their synchronization.
func lockServices(ctx context.Context, n *node.Node) (*store.FileLock, error) {
	lock, err := store.Lock(ctx, n.Layout().Locks().Services(), n.Holder(), func(holder string) {
		n.WarnOnce(problem.Problem{Object: "services", Message: "waiting for " + holder, Warning: true})
	})
	if err != nil {
		return nil, fmt.Errorf("lock the Services: %w", err)
	}
	return lock, nil
}

// ownsNetwork reports whether the pods use the network of the embedded runtime.
func ownsNetwork(n *node.Node) bool {
	return n.Client != nil && n.Client.Endpoint() == runtimeLayout(n).Endpoint()
}

func runtimeLayout(n *node.Node) embedded.Layout { return embedded.ReadLayout(n.Settings.RootDir) }

// partialServices returns what podrun can decode of records that it cannot use: other Services must not get
// their addresses and ports.
func partialServices(faults []store.ServiceFault) (out []*corev1.Service) {
	for _, f := range faults {
		if f.Partial.Service != nil {
			out = append(out, f.Partial.Service)
		}
	}
	return out
}

// serviceRanges returns the ranges of virtual IPs, and records them at the first call. If the record is
// lost, it uses the ranges of the existing virtual IPs, which clients may have cached. If the pods
// use the network of another runtime, it returns nil.
func serviceRanges(ctx context.Context, n *node.Node) ([]netip.Prefix, error) {
	if !ownsNetwork(n) {
		return nil, nil
	}
	have, fault, err := store.ReadServiceRanges(n.Layout())
	if err != nil {
		return nil, err
	}
	if fault != nil {
		n.WarnOnce(fault.Warning())
		if have, err = rangesInUse(n, have); err != nil {
			return nil, err
		}
	}
	ranges, err := embedded.ReadServiceRanges(ctx, runtimeLayout(n))
	if err != nil {
		return nil, err
	}
	missing := fault != nil
	for _, r := range ranges {
		if !slices.ContainsFunc(have, func(h netip.Prefix) bool { return h.Addr().Is4() == r.Addr().Is4() }) {
			have, missing = append(have, r), true
		}
	}
	if missing {
		err = store.WriteServiceRanges(n.Layout(), have)
	}
	if fault != nil && err != nil { // each command derives them again
		if !statefile.IsNewer(err) {
			n.WarnOnce(problem.WarningOf(err))
		}
		err = nil
	}
	return have, err
}

// rangesInUse adds the ranges of the Services' virtual IPs, at most one of each family.
func rangesInUse(n *node.Node, have []netip.Prefix) ([]netip.Prefix, error) {
	records, _, err := store.ReadServices(n.Layout())
	for _, r := range records {
		for _, text := range r.Service.Spec.ClusterIPs {
			ip, err := netip.ParseAddr(text)
			if err == nil && !slices.ContainsFunc(have, func(h netip.Prefix) bool { return h.Addr().Is4() == ip.Is4() }) {
				have = append(have, embedded.ServiceRangeOf(ip))
			}
		}
	}
	return have, err
}

// serviceError adds the problem kind to an error about the state on disk.
func serviceError(name string, err error) error {
	object := "services"
	if name != "" {
		object = "service " + name
	}
	return &problem.Error{Kind: problem.Runtime, Object: object, Err: err}
}
