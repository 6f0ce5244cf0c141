package cgroup

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// sharedGroups returns kubepods, burstable and besteffort with their values.
//
// The weight of kubepods corresponds to the number of the host's CPUs. The kubelet limits the
// memory of kubepods to the node's allocatable memory. podrun does not limit it, because it shares
// the host with other programs. If no memory is reserved, a limit would only change the time at
// which the kernel's OOM killer acts.
func (p Plan) sharedGroups(pods []host.Pod, facts host.Facts) []Group {
	unbounded := hugePages(facts.Cgroup, facts.HugePageSizes, func(int64) uint64 { return unboundedHugePages })
	weigh := func(milli int64) Resources {
		r := Resources{HugePages: unbounded}
		if facts.Cgroup.Has("cpu") {
			r.setWeight(facts.Cgroup.Version, milli)
		}
		return r
	}
	return []Group{
		p.group(weigh(facts.Capacity.Cpu().MilliValue()), kubepods),
		p.group(weigh(burstableMilli(pods)), kubepods, burstable),
		p.group(weigh(0), kubepods, bestEffort),
	}
}

// burstableMilli returns the sum of the CPU requests of podrun's Burstable pods that are
// running or starting.
func burstableMilli(pods []host.Pod) int64 {
	var sum int64
	for _, pod := range pods {
		if pod.Managed && (pod.Ready || pod.Reserved) && pod.QOSClass == corev1.PodQOSBurstable {
			sum += pod.Requests.Cpu().MilliValue()
		}
	}
	return sum
}
