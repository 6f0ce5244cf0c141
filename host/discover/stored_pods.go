package discover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/resource"
	"github.com/podrun/podrun/internal/statefile"
)

// podState reads the files of podrun's pods below one root directory. It adds the files that it cannot read to
// unreadable, if that is set.
type podState struct {
	machine
	layout     identity.Layout
	unreadable *unreadable
}

// storedPods has the content of the directories of podrun's pods.
type storedPods struct {
	// byUID contains the pods whose checkpoints name them.
	byUID  map[string]*host.Pod
	userNS map[string]uint32 // see UserNS
	dirs   host.PodDirs
}

// readStored reads the checkpoints of podrun's pods and their ranges of host IDs. Reading the
// checkpoints is the slowest part of reading the facts, so it runs concurrently with the calls to
// the runtime.
func (m podState) readStored() (storedPods, error) {
	return readDetached(m, func(in podState) (storedPods, error) {
		dir, err := os.Open(m.layout.PodsDir())
		if errors.Is(err, os.ErrNotExist) {
			return storedPods{}, nil
		}
		var entries []os.DirEntry
		if err == nil {
			defer dir.Close()
			entries, err = dir.ReadDir(-1)
		}
		if err != nil {
			return storedPods{}, factError("list podrun's pods", err, "")
		}
		pods := make([]host.Pod, len(entries))
		hostUsers := make([]bool, len(entries))
		var next atomic.Int64
		var readers sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			readers.Go(func() {
				var pod corev1.Pod
				for i := next.Add(1) - 1; i < int64(len(entries)) && m.ctx.Err() == nil; i = next.Add(1) - 1 {
					if entries[i].IsDir() {
						pods[i].UID = entries[i].Name()
						hostUsers[i] = in.readCheckpoint(&pods[i], &pod)
					}
				}
			})
		}
		readers.Wait()
		out := storedPods{byUID: make(map[string]*host.Pod, len(pods)), dirs: host.PodDirs{Count: len(entries)}}
		var ranged []string
		for i := range pods {
			if p := &pods[i]; p.Name != "" {
				out.byUID[p.UID] = p
			} else if entries[i].IsDir() {
				out.dirs.Unnamed = append(out.dirs.Unnamed, p.UID)
			}
			if !hostUsers[i] {
				ranged = append(ranged, entries[i].Name())
			}
		}
		out.userNS = in.readRanges(ranged)
		return out, nil
	})
}

// readDetached calls read in a separate goroutine, because a file system may never respond. If
// the context is canceled, readDetached returns without waiting for read. The podState that it
// passes to read has a context that is never canceled. The check of a context in each of
// thousands of small reads would double their time.
func readDetached[T any](m podState, read func(podState) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	in := m
	in.ctx = context.WithoutCancel(m.ctx)
	done := make(chan result, 1)
	go func() {
		value, err := read(in)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		// If the context has ended, the result may be incomplete.
		if m.ctx.Err() == nil {
			return r.value, r.err
		}
	case <-m.ctx.Done():
	}
	var none T
	return none, factError("read the state of pods", context.Cause(m.ctx), "")
}

// readCheckpoint adds the data of a pod's checkpoint: its requests, ports and priority. A pod
// without a checkpoint, whose directory a user has removed, requests nothing. A pod with a
// checkpoint that podrun cannot use requests nothing, and Broken is set for it. hostUsers reports whether the
// checkpoint specifies the host's user namespace. readCheckpoint reuses pod for all pods, and
// overwrites it.
func (m podState) readCheckpoint(p *host.Pod, pod *corev1.Pod) (hostUsers bool) {
	if !identity.SafeUID(p.UID) {
		// podrun does not create pods with such a UID. It must not become part of a path.
		return false
	}
	found := checkpointText.Examine(m.ctx, m.layout.Pod(p.UID).Checkpoint())
	if found.State == statefile.Absent {
		return false
	}
	fault := found.Fault
	if found.State == statefile.Intact || found.State == statefile.Newer {
		if err := decodeCheckpoint(found.Value, pod); err == nil {
			fault = nil // Package run refuses to change a pod of a newer podrun.
		} else if fault == nil {
			fault = &statefile.Fault{Path: m.layout.Pod(p.UID).Checkpoint(), State: statefile.Corrupt, Err: err}
		}
	}
	if fault != nil {
		id, _ := StoredPod(m.ctx, m.layout, p.UID)
		p.Namespace, p.Name = id.Namespace, id.Name
		switch {
		case statefile.LacksResources(fault):
			m.unreadable.add(fault)
		case fault.State != statefile.Newer:
			p.Broken = fault.Error()
		}
		return false
	}
	p.Namespace, p.Name = pod.Namespace, pod.Name
	p.HostNetwork = pod.Spec.HostNetwork
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	p.QOSClass = resource.QOSClass(pod)
	p.Requests = resource.PodRequests(pod)
	p.HostPorts = host.HostPorts(pod)
	if hasExtended(p.Requests) {
		devices, fault, _ := DevicesFile.Read(m.ctx, m.layout.Pod(p.UID).Devices()) // err is the fault
		m.unreadable.add(fault)
		p.Devices = devices
	}
	return pod.Spec.HostUsers == nil || *pod.Spec.HostUsers
}

// hasExtended reports whether requests include an extended resource. Only pods that request one
// have devices.
func hasExtended(requests corev1.ResourceList) bool {
	for name := range requests {
		if strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}

// decodeCheckpoint decodes the first document of a checkpoint, which is the pod, after the
// comment lines. It decodes only the fields that readCheckpoint uses. It tries JSON first,
// because decoding JSON is ten times faster than decoding YAML.
func decodeCheckpoint(data []byte, pod *corev1.Pod) error {
	*pod = corev1.Pod{}
	for bytes.HasPrefix(data, []byte("#")) || bytes.HasPrefix(data, []byte("---\n")) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	doc, _, _ := bytes.Cut(data, []byte("\n---\n"))
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
		var part demand
		if err = json.Unmarshal(doc, &part); err == nil {
			part.fill(pod)
		}
	} else {
		err = yaml.Unmarshal(doc, pod)
	}
	if err == nil && pod.Name == "" {
		err = fmt.Errorf("its first document is not a pod")
	}
	return err
}

// demand has the fields of a pod that determine which resources the pod uses. Decoding only these
// takes half the time of decoding the pod. Every apply does this for each pod on the host.
type demand struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		HostNetwork    bool                         `json:"hostNetwork"`
		HostUsers      *bool                        `json:"hostUsers"`
		Priority       *int32                       `json:"priority"`
		Resources      *corev1.ResourceRequirements `json:"resources"`
		Overhead       corev1.ResourceList          `json:"overhead"`
		InitContainers []containerDemand            `json:"initContainers"`
		Containers     []containerDemand            `json:"containers"`
	} `json:"spec"`
}

type containerDemand struct {
	Name          string                         `json:"name"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Ports         []corev1.ContainerPort         `json:"ports"`
	Resources     corev1.ResourceRequirements    `json:"resources"`
}

// fill copies these fields to a pod.
func (d *demand) fill(pod *corev1.Pod) {
	pod.Namespace, pod.Name = d.Metadata.Namespace, d.Metadata.Name
	pod.Spec.HostNetwork, pod.Spec.HostUsers, pod.Spec.Priority = d.Spec.HostNetwork, d.Spec.HostUsers, d.Spec.Priority
	pod.Spec.Resources, pod.Spec.Overhead = d.Spec.Resources, d.Spec.Overhead
	pod.Spec.InitContainers, pod.Spec.Containers = containersOf(d.Spec.InitContainers), containersOf(d.Spec.Containers)
}

func containersOf(demands []containerDemand) []corev1.Container {
	out := make([]corev1.Container, len(demands))
	for i, d := range demands {
		out[i] = corev1.Container{Name: d.Name, RestartPolicy: d.RestartPolicy, Ports: d.Ports, Resources: d.Resources}
	}
	return out
}
