package eviction

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
)

// candidate returns a pod with one container, app, that requests memory and disk space.
func candidate(name string, priority int32, memory, disk string, u *Usage) Candidate {
	requests := corev1.ResourceList{}
	if memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	if disk != "" {
		requests[corev1.ResourceEphemeralStorage] = resource.MustParse(disk)
	}
	return Candidate{Usage: u, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: &priority,
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests}}}}}}
}

func memory(n int64) *Usage {
	return &Usage{Memory: n, Containers: map[string]ContainerUsage{"app": {Memory: n}}}
}

func layer(n int64) *Usage {
	return &Usage{Containers: map[string]ContainerUsage{"app": {Layer: Disk{Bytes: n, Inodes: n / mi}}}}
}

func logs(n int64) *Usage {
	return &Usage{Containers: map[string]ContainerUsage{"app": {Logs: Disk{Bytes: n, Inodes: n / mi}}}}
}

func volume(n int64) *Usage {
	return &Usage{Volumes: map[string]Disk{"data": {Bytes: n, Inodes: n / mi}}}
}

func TestRank(t *testing.T) {
	for name, tc := range map[string]struct {
		signal    Signal
		dedicated bool
		pods      []Candidate
		want      string
	}{
		"memory: who exceeds its request goes before who has a lower priority": {MemoryAvailable, false, []Candidate{
			candidate("low", 0, "1Gi", "", memory(gi/2)), candidate("exceeds", 10, "1Gi", "", memory(2*gi))}, "exceeds low"},
		"memory: of those that exceed, the lower priority": {MemoryAvailable, false, []Candidate{
			candidate("high", 10, "", "", memory(4*gi)), candidate("low", 5, "", "", memory(gi))}, "low high"},
		"memory: of one priority, who exceeds by more": {MemoryAvailable, false, []Candidate{
			candidate("big", 0, "3Gi", "", memory(3*gi+mi)), candidate("greedy", 0, "100Mi", "", memory(gi))}, "greedy big"},
		"memory: within the requests, who is closer to them": {MemoryAvailable, false, []Candidate{
			candidate("idle", 0, "4Gi", "", memory(gi)), candidate("busy", 0, "1Gi", "", memory(gi-mi))}, "busy idle"},
		"usage that is not known goes first": {MemoryAvailable, false, []Candidate{
			candidate("known", 0, "", "", memory(gi)), candidate("unknown", 10, "", "", nil)}, "unknown known"},
		"critical pods are left out": {MemoryAvailable, false, []Candidate{
			candidate("critical", scheduling.SystemCriticalPriority, "", "", memory(gi)), candidate("high", scheduling.HighestUserDefinablePriority, "1Gi", "", memory(mi))}, "high"},
		"disk: a pod that prevents the measurement uses most": {NodeFSAvailable, false, []Candidate{
			candidate("large", 0, "", "", volume(gi)), candidate("hidden", 0, "", "9Gi", &Usage{Volumes: map[string]Disk{"data": {}}, Prevented: map[string]bool{"data": true}})}, "hidden large"},
		"disk: a pod whose first measurement is in progress uses most": {NodeFSAvailable, false, []Candidate{
			candidate("large", 0, "", "", volume(gi)), candidate("slow", 0, "", "9Gi", &Usage{Volumes: map[string]Disk{"data": {}}, Unmeasured: true})}, "slow large"},
		"inodes: a pod that prevents the measurement uses most": {NodeFSInodesFree, true, []Candidate{
			candidate("large", 0, "", "", volume(gi)), candidate("hidden", 0, "", "", &Usage{Prevented: map[string]bool{"data": true}})}, "hidden large"},
		"disk of images alone: volumes do not count": {ImageFSAvailable, true, []Candidate{
			candidate("large", 0, "", "", layer(gi)), candidate("hidden", 0, "", "", &Usage{Prevented: map[string]bool{"data": true}})}, "large hidden"},
		"process ids: priority, then number": {PIDAvailable, false, []Candidate{
			candidate("few", 0, "", "", &Usage{Processes: 5}), candidate("many", 0, "", "", &Usage{Processes: 500}), candidate("low", -1, "", "", &Usage{Processes: 1})}, "low many few"},
		"disk: all that is on one disk counts": {NodeFSAvailable, false, []Candidate{
			candidate("layer", 0, "", "", layer(3*gi)), candidate("logs", 0, "", "", logs(2*gi)), candidate("volume", 0, "", "", volume(gi))}, "layer logs volume"},
		"disk of the node alone: layers do not count": {NodeFSAvailable, true, []Candidate{
			candidate("layer", 0, "", "", layer(3*gi)), candidate("logs", 0, "", "", logs(2*gi)), candidate("volume", 0, "", "", volume(gi))}, "logs volume layer"},
		"disk of images alone: only layers count": {ImageFSAvailable, true, []Candidate{
			candidate("volume", 0, "", "", volume(3*gi)), candidate("layer", 0, "", "", layer(mi))}, "layer volume"},
		"disk: over the request before the rest": {NodeFSAvailable, false, []Candidate{
			candidate("within", 0, "", "4Gi", volume(3*gi)), candidate("over", 0, "", "1Gi", volume(gi+mi))}, "over within"},
		"inodes: who uses more": {NodeFSInodesFree, false, []Candidate{
			candidate("few", 0, "", "", volume(gi)), candidate("many", 0, "", "", volume(2*gi))}, "many few"},
		"inodes: the request of disk space is subtracted from them": {NodeFSInodesFree, false, []Candidate{
			candidate("many", 0, "", "1Gi", volume(2*gi)), candidate("few", 0, "", "", volume(gi))}, "few many"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Rank(tc.pods, tc.signal, tc.dedicated) {
				got = append(got, c.Pod.Name)
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("%q, want %q", text, tc.want)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	hard := Threshold{Signal: MemoryAvailable, Value: Amount{Quantity: "100Mi"}}
	pods := Threshold{Signal: PIDAvailable, Value: Amount{Part: 0.1}}
	disk := Threshold{Signal: NodeFSAvailable, Value: Amount{Part: 0.1}}
	o := Observations{MemoryAvailable: {80 * mi, 8 * gi}, PIDAvailable: {50, 1000}, NodeFSAvailable: {gi, 100 * gi}}
	both := &Usage{Containers: map[string]ContainerUsage{"app": {Layer: Disk{Bytes: 2 * mi}, Logs: Disk{Bytes: mi}}}}
	for name, tc := range map[string]struct {
		c    Candidate
		met  []Threshold
		want string
	}{
		"over its request": {candidate("web", 0, "10Mi", "", memory(64*mi)), []Threshold{hard, disk},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. Container app was using 64Mi, request is 10Mi, has larger consumption of memory. "},
		"without a request": {candidate("web", 0, "", "", memory(64*mi)), []Threshold{hard},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. Container app was using 64Mi, request is 0, has larger consumption of memory. "},
		"within its request": {candidate("web", 0, "1Gi", "", memory(64*mi)), []Threshold{hard},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "},
		"process ids": {candidate("web", 0, "", "", memory(64*mi)), []Threshold{pods},
			"The node was low on resource: pids. Threshold quantity: 100, available: 50. "},
		"disk": {candidate("web", 0, "", "1Mi", both), []Threshold{disk},
			"The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, available: 1Gi. Container app was using 3Mi, request is 1Mi, has larger consumption of ephemeral-storage. "},
		"usage not known": {candidate("web", 0, "", "", nil), []Threshold{hard}, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "},
	} {
		if got := Message(tc.c, tc.met, o); got != tc.want {
			t.Errorf("%s: %q\nwant %q", name, got, tc.want)
		}
	}
}

func TestOverLimit(t *testing.T) {
	limits := func(disk string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(disk)}}
	}
	sized := func(size string) []corev1.Volume {
		q := resource.MustParse(size)
		return []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &q}}}}
	}
	for name, tc := range map[string]struct {
		spec      corev1.PodSpec
		u         *Usage
		dedicated bool
		want      string
	}{
		"no limits":                {corev1.PodSpec{}, volume(gi), false, ""},
		"emptyDir":                 {corev1.PodSpec{Volumes: sized("1Mi")}, volume(2 * mi), false, `Usage of EmptyDir volume "data" exceeds the limit "1Mi". `},
		"emptyDir at its limit":    {corev1.PodSpec{Volumes: sized("2Mi")}, volume(2 * mi), false, ""},
		"emptyDir without a limit": {corev1.PodSpec{Volumes: sized("0")}, volume(2 * mi), false, ""},
		"the pod as a whole": {corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: limits("1Mi")}, {Name: "b", Resources: limits("1Mi")}}}, volume(3 * mi), false,
			"Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "},
		"its /etc/hosts and the like (CVE-2020-8557)": {corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: limits("1Mi")}}}, &Usage{Files: Disk{Bytes: 2 * mi}}, false,
			"Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "},
		"a container": {corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: limits("1Mi")}, {Name: "b", Resources: limits("9Mi")}}}, layer(2 * mi), false,
			`Container app exceeded its local ephemeral storage limit "1Mi". `},
		"its layer is on another disk": {corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: limits("1Mi")}, {Name: "b", Resources: limits("9Mi")}}}, layer(2 * mi), true, ""},
		"its logs": {corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: limits("1Mi")}, {Name: "b", Resources: limits("9Mi")}}}, logs(2 * mi), true,
			`Container app exceeded its local ephemeral storage limit "1Mi". `},
		"an emptyDir whose measurement its containers prevent": {corev1.PodSpec{Volumes: sized("1Mi")}, &Usage{Prevented: map[string]bool{"data": true}}, false,
			`Usage of EmptyDir volume "data" may exceed the limit "1Mi": ` + preventedText + ". "},
		"an emptyDir without a limit whose measurement its containers prevent": {corev1.PodSpec{Volumes: sized("0"), Containers: []corev1.Container{{Name: "app", Resources: limits("1Mi")}}},
			&Usage{Prevented: map[string]bool{"data": true}}, false, "Pod ephemeral local storage usage may exceed the total limit of containers 1Mi: " + preventedText + ". "},
		"no limit that the measurement is for": {corev1.PodSpec{Volumes: sized("0")}, &Usage{Prevented: map[string]bool{"data": true}}, false, ""},
	} {
		pod := &corev1.Pod{Spec: tc.spec}
		if got, signal := OverLimit(pod, tc.u, tc.dedicated); got != tc.want || (got == "") != (signal == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if name != "no limits" && name != "emptyDir without a limit" && name != "no limit that the measurement is for" && !Limited(pod) {
			t.Errorf("%s: not measured", name)
		}
	}
	if Limited(&corev1.Pod{}) {
		t.Error("a pod without limits is measured")
	}
}
