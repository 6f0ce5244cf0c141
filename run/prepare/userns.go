package prepare

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// UserNamespace returns the range of host IDs for a pod with hostUsers: false, and nil for other pods. An
// existing pod keeps its range. A new pod gets the lowest free range. There are maxPods ranges of 65536
// IDs each; the first one starts at 65536, as in a kubelet for which /etc/subuid contains no range
// (KEP-127).
func UserNamespace(pod *corev1.Pod, uid string, taken map[string]uint32, maxPods int32) (*runtimeapi.UserNamespace, problem.List) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil, nil
	}
	if first := taken[uid]; first != 0 {
		return mapped(first), nil
	}
	held := map[uint32]bool{}
	for other, first := range taken {
		if first == 0 && other != uid {
			return nil, problem.List{{
				Field: "spec.hostUsers", Reason: "UserNamespaces",
				Message: "podrun cannot determine the host IDs of pod " + other + ": its userns file is corrupt",
				Hint:    "delete that pod: two pods must not share a range",
			}}
		}
		held[first] = true
	}
	for i := uint32(1); i <= min(uint32(max(maxPods, 0)), 1<<16-2); i++ {
		if first := i * identity.UserNSLength; !held[first] {
			return mapped(first), nil
		}
	}
	return nil, problem.List{{
		Field: "spec.hostUsers", Reason: "UserNamespaces",
		Message: fmt.Sprintf("other pods use all %d ranges of host IDs", maxPods), Hint: "delete a pod, or increase maxPods",
	}}
}

func mapped(first uint32) *runtimeapi.UserNamespace {
	ids := func() []*runtimeapi.IDMapping {
		return []*runtimeapi.IDMapping{{HostId: first, Length: identity.UserNSLength}}
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids(), Gids: ids()}
}

// IDRange returns the first host ID of the pod's user namespace, and reports whether the pod has a
// user namespace.
func (p *Plan) IDRange() (first uint32, has bool) {
	ns := p.Sandbox.Namespaces().GetUsernsOptions()
	if ns.GetMode() != runtimeapi.NamespaceMode_POD || len(ns.GetUids()) == 0 {
		return 0, false
	}
	return ns.GetUids()[0].GetHostId(), true
}

// withIDRange returns the held ranges with this plan's range added.
func (p *Plan) withIDRange(held map[string]uint32) map[string]uint32 {
	first, has := p.IDRange()
	if !has {
		return held
	}
	out := map[string]uint32{p.ID.UID: first}
	for uid, other := range held {
		out[uid] = other
	}
	return out
}

// MarshalIDRange returns the content of a pod's userns file in the kubelet's format. Users and groups have
// the same range.
func MarshalIDRange(first uint32) ([]byte, error) {
	ids := []host.IDMapping{{HostID: first, ContainerID: 0, Length: identity.UserNSLength}}
	return json.Marshal(host.UserNS{UIDs: ids, GIDs: ids})
}
