package discover

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
)

// readPods describes the pods in the runtime, ordered by namespace, name and UID. It also
// describes podrun's pods that were admitted and have no sandbox yet. A pod with several
// sandboxes is ready if any of them is.
func (m podState) readPods(sandboxes []*runtimeapi.PodSandbox, reserved []host.Pod, stored map[string]*host.Pod) []host.Pod {
	byUID := make(map[string]*host.Pod, len(sandboxes))
	all := make([]*host.Pod, 0, len(sandboxes))
	for _, s := range sandboxes {
		id := s.GetMetadata()
		p := byUID[id.GetUid()]
		if p == nil {
			p = &host.Pod{Namespace: id.GetNamespace(), Name: id.GetName(), UID: id.GetUid()}
			byUID[p.UID] = p
			all = append(all, p)
		}
		ours, other := identity.Owner(s.GetAnnotations(), m.layout.RootDir)
		p.Managed = p.Managed || ours
		if other != "" {
			p.RootDir = other
		}
		p.Ready = p.Ready || s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		p.CreatedAt = max(p.CreatedAt, s.GetCreatedAt())
	}
	// Pods without a sandbox have reserved their requests under the node's lock.
	for uid := range stored {
		if byUID[uid] == nil {
			all = append(all, &host.Pod{UID: uid, Managed: true, Reserved: true})
		}
	}
	var pod corev1.Pod
	for _, p := range all {
		if p.RootDir != "" && !p.Managed {
			foreign := m
			foreign.layout = identity.Layout{RootDir: p.RootDir}
			foreign.readCheckpoint(p, &pod)
		} else if p.Managed {
			m.addStored(p, stored)
		}
	}
	all = addReservations(all, reserved)
	slices.SortFunc(all, func(a, b *host.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	pods := make([]host.Pod, len(all))
	for i, p := range all {
		pods[i] = *p
	}
	return pods
}

// addStored adds the data of a pod's checkpoint. If a checkpoint was written after stored was
// read, it reads the checkpoint.
func (m podState) addStored(p *host.Pod, stored map[string]*host.Pod) {
	has, ok := stored[p.UID]
	if !ok {
		m.readCheckpoint(p, &corev1.Pod{})
		return
	}
	s := *has
	if s.Broken != "" && p.Name != "" {
		s.Namespace, s.Name = p.Namespace, p.Name // the runtime's labels
	}
	s.Managed, s.Ready, s.Reserved, s.RootDir, s.CreatedAt = p.Managed, p.Ready, p.Reserved, p.RootDir, p.CreatedAt
	*p = s
}
