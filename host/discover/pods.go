package discover

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/hostfile"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/resource"
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

// readStored reads the checkpoints of podrun's pods, by UID. This is the slowest part,
// and runs concurrently with the calls to the runtime.
func (m machine) readStored(layout identity.Layout) (map[string]host.Pod, error) {
	entries, err := os.ReadDir(layout.PodsDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, trouble("list podrun's pods", err, "")
	}
	out := map[string]host.Pod{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		p := host.Pod{UID: e.Name()}
		m.readCheckpoint(&p, layout)
		if p.Name != "" {
			out[p.UID] = p
		}
	}
	return out, nil
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

// readCheckpoint adds the data of a pod's checkpoint: requests, ports, priority. A pod
// without a checkpoint (its directory was removed manually) requests nothing, nor does
// one whose checkpoint is corrupt, which is Broken.
func (m machine) readCheckpoint(p *host.Pod, layout identity.Layout) {
	if !identity.SafeUID(p.UID) {
		return // podrun makes no such pod; never build a path of it
	}
	path := layout.Checkpoint(p.UID)
	data, err := hostfile.Read(m.ctx, path, identity.MaxCheckpoint)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var pod *corev1.Pod
	if err == nil {
		pod, err = decodeCheckpoint(data)
		if _, version := identity.CutSchema(data); err != nil && identity.CheckSchema(path, version) != nil {
			// A format that this podrun does not know: run refuses to change the pod.
			p.Namespace, p.Name, _ = identity.HeadPod(data)
			return
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		p.Broken = err.Error()
		if p.Name == "" {
			id, _ := StoredPod(m.ctx, layout, p.UID)
			p.Namespace, p.Name = id.Namespace, id.Name
		}
		return
	}
	p.Namespace, p.Name = pod.Namespace, pod.Name
	p.HostNetwork = pod.Spec.HostNetwork
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	p.QOSClass = resource.QOSClass(pod)
	p.Requests = resource.PodRequests(pod)
	p.HostPorts = host.HostPorts(pod)
	if !slices.ContainsFunc(slices.Collect(maps.Keys(p.Requests)), extended) {
		return
	}
	if p.Devices, err = m.readDevices(layout.Devices(p.UID)); err != nil {
		m.unreadable.add("devices of pod "+p.Namespace+"/"+p.Name, err)
	}
}

// extended reports whether a resource is an extended one: only these are devices.
func extended(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

// decodeCheckpoint decodes the first document of a checkpoint, the pod, behind
// lines of comment. JSON is YAML that decodes ten times faster, so it is tried
// first.
func decodeCheckpoint(data []byte) (*corev1.Pod, error) {
	for bytes.HasPrefix(data, []byte("#")) || bytes.HasPrefix(data, []byte("---\n")) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	doc, _, _ := bytes.Cut(data, []byte("\n---\n"))
	pod := &corev1.Pod{}
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
		err = json.UnmarshalCaseSensitivePreserveInts(doc, pod)
	} else {
		err = yaml.Unmarshal(doc, pod)
	}
	if err == nil && pod.Name == "" {
		err = fmt.Errorf("its first document is not a pod")
	}
	return pod, err
}
