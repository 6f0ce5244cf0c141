package cluster

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/hostfile"
)

// kubernetesVersion is the release whose kubelet podrun implements. The API server and the schedulers
// compare it with their own.
const kubernetesVersion = "v1.36.3"

// declared are the features of this kubelet that a control plane must know before it places a pod
// (KEP-5328).
var declared = []string{"InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}

// nodeStatus returns the status of the node. down is the reason why it is not ready; "" if it is. was is
// the status that the API server has.
func (c *Cluster) nodeStatus(f host.Facts, images []corev1.ContainerImage, down string, was corev1.NodeStatus, now time.Time) corev1.NodeStatus {
	s := *was.DeepCopy()
	// The supervisor reports invalid settings.
	allocatable, _ := admission.Allocatable(f, c.node.Engine.Settings)
	if f.NodeName != "" {
		s.Capacity = f.Capacity
		s.Allocatable = allocatable
		s.Addresses = addresses(f)
		s.NodeInfo = c.nodeInfo(f)
		s.RuntimeHandlers = runtimeHandlers(f.Runtime)
		s.Features = &corev1.NodeFeatures{}
		if known, ok := f.Runtime.Features["supplementalGroupsPolicy"]; ok {
			s.Features.SupplementalGroupsPolicy = &known
		}
	}
	if images != nil {
		s.Images = images
	}
	s.DeclaredFeatures = declared
	s.DaemonEndpoints.KubeletEndpoint.Port = c.options.Port
	s.Conditions = conditions(f, down, was.Conditions, now)
	return s
}

func addresses(f host.Facts) []corev1.NodeAddress {
	var out []corev1.NodeAddress
	for _, ip := range f.NodeIPs {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: f.NodeName})
}

func (c *Cluster) nodeInfo(f host.Facts) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID:               machineID(),
		SystemUUID:              line("/sys/class/dmi/id/product_uuid"),
		BootID:                  line("/proc/sys/kernel/random/boot_id"),
		KernelVersion:           f.KernelVersion,
		OSImage:                 osImage(),
		ContainerRuntimeVersion: f.Runtime.Name + "://" + f.Runtime.Version,
		KubeletVersion:          kubernetesVersion + "+podrun",
		OperatingSystem:         f.OS,
		Architecture:            f.Arch,
	}
}

func machineID() string { return line("/etc/machine-id") }

// line returns the first line of a file; "" if it cannot be read: none of these files exists on every host.
func line(path string) string {
	data, err := hostfile.Read(context.Background(), path, 4096)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first)
}

// osImage returns the name of the distribution (os-release(5)).
func osImage() string {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

func runtimeHandlers(r host.Runtime) []corev1.NodeRuntimeHandler {
	var out []corev1.NodeRuntimeHandler
	for name, h := range r.Handlers {
		recursive, users := h.RecursiveReadOnlyMounts, h.UserNamespaces
		out = append(out, corev1.NodeRuntimeHandler{
			Name:     name,
			Features: &corev1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &recursive, UserNamespaces: &users},
		})
	}
	slices.SortFunc(out, func(a, b corev1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// conditions returns the kubelet's conditions, and the existing conditions that other components have set.
func conditions(f host.Facts, down string, was []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	pressure := func(kind corev1.NodeConditionType, without, with, ok, short string) corev1.NodeCondition {
		c := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: without, Message: ok}
		if slices.Contains(f.Pressure, kind) {
			c.Status = corev1.ConditionTrue
			c.Reason = with
			c.Message = short
		}
		return c
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "podrun-node is ready"}
	if down != "" {
		ready.Status = corev1.ConditionFalse
		ready.Reason = "KubeletNotReady"
		ready.Message = down
	}
	if f.ShuttingDown {
		ready.Status = corev1.ConditionFalse
		ready.Reason = "KubeletNotReady"
		ready.Message = "node is shutting down"
	}
	own := []corev1.NodeCondition{
		pressure(corev1.NodeMemoryPressure, "KubeletHasSufficientMemory", "KubeletHasInsufficientMemory", "kubelet has sufficient memory available", "kubelet has insufficient memory available"),
		pressure(corev1.NodeDiskPressure, "KubeletHasNoDiskPressure", "KubeletHasDiskPressure", "kubelet has no disk pressure", "kubelet has disk pressure"),
		pressure(corev1.NodePIDPressure, "KubeletHasSufficientPID", "KubeletHasInsufficientPID", "kubelet has sufficient PID available", "kubelet has insufficient PID available"),
		ready,
	}
	var out []corev1.NodeCondition
	for _, c := range own {
		c.LastHeartbeatTime = metav1.NewTime(now)
		c.LastTransitionTime = metav1.NewTime(now)
		for _, old := range was {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		out = append(out, c)
	}
	for _, old := range was {
		if !slices.ContainsFunc(own, func(c corev1.NodeCondition) bool { return c.Type == old.Type }) {
			out = append(out, old)
		}
	}
	return out
}

// imageList is the list of the runtime's images, which podrun reads rarely.
type imageList struct {
	list []corev1.ContainerImage
	at   time.Time
}

// The kubelet's limits on the images (nodeStatusMaxImages) and on the names of an image, and the
// interval at which podrun reads the images.
const (
	maxImages     = 50
	maxImageNames = 5
	imagesEvery   = 5 * time.Minute
)

// read returns the images of the node, the largest first; nil if they are unknown.
func (i *imageList) read(ctx context.Context, c *Cluster) []corev1.ContainerImage {
	if time.Since(i.at) < imagesEvery {
		return i.list
	}
	list, err := c.node.Engine.Client.Images.List(ctx)
	if err != nil {
		return i.list
	}
	slices.SortFunc(list, func(a, b *runtimeapi.Image) int {
		if a.Size != b.Size {
			if a.Size > b.Size {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Id, b.Id)
	})
	i.list = []corev1.ContainerImage{}
	i.at = time.Now()
	for _, image := range list[:min(len(list), maxImages)] {
		names := append(slices.Clone(image.RepoDigests), image.RepoTags...)
		if len(names) > 0 {
			i.list = append(i.list, corev1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: int64(image.Size)})
		}
	}
	return i.list
}
