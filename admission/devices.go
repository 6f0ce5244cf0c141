package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// checkDevices refuses pods that request devices (--device) if the runtime does not support
// CDI. Such a runtime would ignore the devices and start the containers without them.
func checkDevices(q question) problem.List {
	if r := q.facts.Runtime; r.CDI == nil || *r.CDI {
		return nil
	}
	var out problem.List
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if len(q.facts.Devices[string(name)]) > 0 {
				out = append(out, problem.Problem{
					Field: fmt.Sprintf("%s.resources.limits[%s]", field, name), Reason: "CDINotSupported",
					Message: fmt.Sprintf("%s does not add CDI devices to containers", runtimeName(q)),
					Hint:    "requires containerd 1.7 with enable_cdi = true in its CRI configuration, containerd 2.0, or CRI-O 1.28",
				})
			}
		}
	})
	return out
}

// allocate assigns devices to an admitted pod. A running pod keeps its devices. A stopped pod gets
// its former devices again, unless another pod now has one of them.
func (q question) allocate(v *Verdict) {
	if q.runs() {
		v.Devices = q.current().Devices
		return
	}
	if len(q.facts.Devices) == 0 || len(v.Problems.Errors()) > 0 {
		return
	}
	var held []string
	for _, p := range q.countedPods() {
		if occupies(p) && !among(v.Preempts, p) {
			held = append(held, devicesOf(p)...)
		}
	}
	had := devicesOf(q.current())
	free := map[corev1.ResourceName][]string{}
	for name, devices := range q.facts.Devices {
		mine, rest := []string{}, []string{}
		for _, d := range devices {
			switch {
			case slices.Contains(held, d):
			case slices.Contains(had, d):
				mine = append(mine, d)
			default:
				rest = append(rest, d)
			}
		}
		free[corev1.ResourceName(name)] = append(mine, rest...)
	}
	devices, err := resource.AllocateDevices(q.pod, free)
	if err != nil {
		v.Problems = append(v.Problems, unexpectedAllocation(err.Error(), "delete a pod that uses such a device, or add devices with --device"))
		return
	}
	v.Devices = devices
	v.Problems = append(v.Problems, q.unknownDevices(devices)...)
}

// current returns this pod's entry in the facts. It returns the zero value if there is none.
func (q question) current() host.Pod {
	at := slices.IndexFunc(q.replaced, func(p host.Pod) bool { return p.UID == string(q.pod.UID) })
	if at < 0 {
		return host.Pod{}
	}
	return q.replaced[at]
}

// unknownDevices refuses devices that no CDI specification on this host defines: the runtime
// would fail to create the container.
func (q question) unknownDevices(devices map[string][]string) problem.List {
	if q.facts.CDI == nil {
		return nil
	}
	var out problem.List
	for _, c := range slices.Sorted(maps.Keys(devices)) {
		for _, d := range devices[c] {
			if slices.Contains(q.facts.CDI.Devices, d) {
				continue
			}
			out = append(out, unexpectedAllocation(fmt.Sprintf("container %s requires the device %s, which no CDI specification of %s defines", c, d, strings.Join(q.facts.CDI.Dirs, ", ")),
				"generate the specification with the vendor's tool, such as 'nvidia-ctk cdi generate'"))
		}
	}
	return out
}

// unexpectedAllocation returns the kubelet's problem for devices that are not available.
func unexpectedAllocation(why, hint string) problem.Problem {
	return problem.Problem{Field: "spec", Reason: "UnexpectedAdmissionError",
		Message: "Allocate failed due to " + why + ", which is unexpected", Hint: hint}
}

func devicesOf(p host.Pod) []string {
	var out []string
	for _, devices := range p.Devices {
		out = append(out, devices...)
	}
	return out
}
