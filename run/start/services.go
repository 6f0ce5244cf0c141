package start

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/kubelet/envvars"

	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/service"
	"github.com/podrun/podrun/volume"
)

// serviceEnv returns the environment variables of the current Services in a pod's namespace. The
// argument cluster is node.Node.ClusterServices.
func serviceEnv(layout identity.Layout, object *corev1.Pod, cluster func(string) []*corev1.Service) ([]corev1.EnvVar, error) {
	if cluster != nil {
		return clusterEnv(object, cluster), nil
	}
	if off := object.Spec.EnableServiceLinks; off != nil && !*off || !store.HasServices(layout) {
		return nil, nil
	}
	records, _, err := store.ReadServices(layout) // a synchronization reports the faults
	if err != nil {
		return nil, err
	}
	var services []*corev1.Service
	for _, r := range records {
		// FromServices panics for a Service without ports. Validation requires a port, but the
		// record may have been edited.
		if r.Service.Namespace == object.Namespace && len(r.Service.Spec.Ports) > 0 {
			services = append(services, r.Service)
		}
	}
	return envvars.FromServices(services), nil
}

// clusterEnv returns the variables of a cluster's Services: those of the pod's namespace, unless the pod
// disables them, and those of the API server's Service. If both have a Service of the same name, the
// Service of the pod's namespace takes precedence.
func clusterEnv(object *corev1.Pod, cluster func(namespace string) []*corev1.Service) []corev1.EnvVar {
	var services []*corev1.Service
	known := map[string]bool{}
	add := func(list []*corev1.Service, only string) {
		for _, s := range list {
			ip := s.Spec.ClusterIP
			if len(s.Spec.Ports) > 0 && ip != "" && ip != corev1.ClusterIPNone && !known[s.Name] && (only == "" || s.Name == only) {
				known[s.Name] = true
				services = append(services, s)
			}
		}
	}
	const apiServer = "kubernetes"
	if off := object.Spec.EnableServiceLinks; off == nil || *off {
		add(cluster(object.Namespace), "")
	} else if object.Namespace == metav1.NamespaceDefault {
		add(cluster(object.Namespace), apiServer)
	}
	add(cluster(metav1.NamespaceDefault), apiServer)
	return envvars.FromServices(services)
}

// withServiceNames adds the names of Services to the hosts file of a pod that uses the cluster's DNS, and
// calls write with the result. It holds a lock, so that a synchronization of the names in all pods runs
// either before or after it. Like a synchronization, it adds no names to a file that is too large.
func withServiceNames(ctx context.Context, p *pod.Pod, file string, write func(string) error) error {
	layout := p.Plan.Layout
	if !store.HasServices(layout) || !dns.UsesClusterDNS(p.Spec()) {
		return write(file)
	}
	if len(file) > volume.MaxHosts {
		p.Node.WarnOnce(problem.Problem{Object: "pod " + p.Plan.ID.String(),
			Message: "its hosts file " + volume.ErrHostsTooLarge.Error() + ": it does not contain the names of Services",
			Warning: true})
		return write(file)
	}
	lock, err := store.Lock(ctx, layout.Locks().ServiceNames(), p.Node.Holder(), nil)
	if err != nil {
		return fmt.Errorf("lock the names of Services: %w", err)
	}
	defer lock.Unlock()
	names, fault, err := store.ReadServiceNames(layout)
	if err != nil {
		return err
	}
	if fault != nil {
		// The next synchronization derives the names again, and adds them to this file.
		p.Node.WarnOnce(fault.Warning())
	}
	records, _, err := store.ReadServices(layout) // a synchronization reports the faults
	if err != nil {
		return err
	}
	// Services that were recorded after the last synchronization already have virtual IPs.
	var services []*corev1.Service
	for _, r := range records {
		services = append(services, r.Service)
	}
	more, _ := service.Names(services, nil)
	for _, n := range more {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return write(file + service.Section(file, p.Spec().Namespace, service.Domain(p.Node.Settings.ClusterDomain), names))
}
