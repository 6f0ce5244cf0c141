package pod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/prepare"
)

// Known returns a Pod with only the information about k that its removal requires; k.Pod may be
// nil.
func Known(n *node.Node, k observe.Known, facts host.Facts) *Pod {
	p := &prepare.Plan{ID: k.ID, Pod: k.Pod, Layout: n.Layout(), NodeIPs: facts.NodeIPs, Runtime: facts.Runtime.Name, Facts: facts}
	if p.Pod == nil {
		p.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.ID.Namespace, Name: k.ID.Name}}
	}
	p.Cgroup = cgroup.Leftovers(k.ID.UID, facts.Cgroup, n.Settings)
	return New(n, p)
}
