package discover

import (
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
)

// readPods describes the pods of the runtime, ordered by namespace, name and
// UID, and those of podrun that have been admitted and have no sandbox yet. A
// pod with several sandboxes is ready if any of them is.
func (m machine) readPods(sandboxes []*runtimeapi.PodSandbox, reserved []host.Pod, stored map[string]host.Pod, layout identity.Layout) []host.Pod {
	byUID := map[string]*host.Pod{}
	for _, s := range sandboxes {
		id := s.GetMetadata()
		p := byUID[id.GetUid()]
		if p == nil {
			p = &host.Pod{Namespace: id.GetNamespace(), Name: id.GetName(), UID: id.GetUid()}
			byUID[p.UID] = p
		}
		ours, other := identity.Owner(s.GetAnnotations(), layout.RootDir)
		p.Managed = p.Managed || ours
		if other != "" {
			p.RootDir = other
		}
		p.Ready = p.Ready || s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		p.CreatedAt = max(p.CreatedAt, s.GetCreatedAt())
	}
	addReserved(byUID, stored)
	pods := make([]host.Pod, 0, len(byUID))
	for _, p := range byUID {
		if p.RootDir != "" && !p.Managed {
			m.readCheckpoint(p, identity.Layout{RootDir: p.RootDir})
		} else if p.Managed {
			m.asStored(p, stored, layout)
		}
		pods = append(pods, *p)
	}
	pods = addReservations(pods, reserved)
	slices.SortFunc(pods, func(a, b host.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+a.UID, b.Namespace+"/"+b.Name+"/"+b.UID)
	})
	return pods
}

// addReserved adds podrun's pods that have a checkpoint but no sandbox: their requests
// were reserved under the node's lock.
func addReserved(byUID map[string]*host.Pod, stored map[string]host.Pod) {
	for uid := range stored {
		if byUID[uid] == nil {
			byUID[uid] = &host.Pod{UID: uid, Managed: true, Reserved: true}
		}
	}
}

// asStored adds the data of a pod's checkpoint. A checkpoint that was written after the
// others were read is read now.
func (m machine) asStored(p *host.Pod, stored map[string]host.Pod, layout identity.Layout) {
	s, ok := stored[p.UID]
	if !ok {
		m.readCheckpoint(p, layout)
		return
	}
	if s.Broken != "" && p.Name != "" {
		s.Namespace, s.Name = p.Namespace, p.Name // the runtime's labels
	}
	s.Managed, s.Ready, s.Reserved, s.RootDir, s.CreatedAt = p.Managed, p.Ready, p.Reserved, p.RootDir, p.CreatedAt
	*p = s
}
