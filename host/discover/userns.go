package discover

import (
	"context"
	"errors"
	"io/fs"
	"os"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// UserNS maps the UIDs of podrun's pods to the first host ID of the range that each pod uses.
// The value is 0 if the pod's file is corrupt.
func UserNS(ctx context.Context, layout identity.Layout) (map[string]uint32, error) {
	return podState{machine: machine{ctx: ctx}, layout: layout}.userNS()
}

func (m podState) userNS() (map[string]uint32, error) {
	return readDetached(m, func(in podState) (map[string]uint32, error) {
		entries, err := os.ReadDir(m.layout.PodsDir())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, factError("list the user namespaces of podrun's pods", err, "")
		}
		pods := make([]string, len(entries))
		for i, e := range entries {
			pods[i] = e.Name()
		}
		return in.readRanges(pods), nil
	})
}

// readRanges reads the ranges of these pods. Most pods have none.
func (m podState) readRanges(pods []string) map[string]uint32 {
	var held map[string]uint32
	for _, uid := range pods {
		found := userNSFile.Examine(m.ctx, m.layout.Pod(uid).UserNS())
		if found.State == statefile.Absent {
			continue
		}
		m.unreadable.add(found.Fault)
		if held == nil {
			held = map[string]uint32{}
		}
		held[uid] = found.Value
	}
	return held
}

// recoverUserNS asks the runtime for the ranges of pods whose files are unreadable. Two pods
// must never share a range. A pod without a sandbox uses no range.
func (m podState) recoverUserNS(client *cri.Client, held map[string]uint32, sandboxes []*runtimeapi.PodSandbox) {
	for uid, first := range held {
		if first != 0 || client == nil {
			continue
		}
		range0, known := uint32(0), true
		for _, s := range sandboxes {
			if s.GetMetadata().GetUid() != uid {
				continue
			}
			status, err := client.PodSandboxStatus(m.ctx, s.GetId())
			if ids := status.GetLinux().GetNamespaces().GetOptions().GetUsernsOptions().GetUids(); len(ids) > 0 {
				range0 = ids[0].GetHostId()
			} else if err != nil || s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
				known = false
			}
		}
		switch {
		case range0 != 0:
			held[uid] = range0
		case known:
			delete(held, uid)
		}
	}
}

// addForeignUserNS adds the ranges of pods on the same runtime that belong to other root
// directories. It ignores ranges that cannot be read.
func (m podState) addForeignUserNS(held map[string]uint32, pods []host.Pod) map[string]uint32 {
	roots := map[string]bool{}
	for _, p := range pods {
		if p.RootDir == "" || p.Managed || roots[p.RootDir] {
			continue
		}
		roots[p.RootDir] = true
		others, err := UserNS(m.ctx, identity.Layout{RootDir: p.RootDir})
		if err != nil {
			continue
		}
		if held == nil {
			held = map[string]uint32{}
		}
		for uid, first := range others {
			if _, own := held[uid]; !own && first != 0 {
				if held == nil {
					held = map[string]uint32{}
				}
				held[uid] = first
			}
		}
	}
	return held
}
