package view

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/run/lifecycle"
)

var tableNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(tableNow.Add(-d)) }

// Container statuses for these tests.
func runs(name string) corev1.ContainerStatus {
	yes := true
	return corev1.ContainerStatus{Name: name, Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waits(name, reason string) corev1.ContainerStatus {
	no := false
	return corev1.ContainerStatus{Name: name, Started: &no, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func ends(name, reason string, code, signal int32) corev1.ContainerStatus {
	no := false
	return corev1.ContainerStatus{Name: name, Started: &no, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal}}}
}

func unreadyOne(c corev1.ContainerStatus) corev1.ContainerStatus {
	c.Ready = false
	return c
}

func restarted(c corev1.ContainerStatus, n int32, d time.Duration) corev1.ContainerStatus {
	c.RestartCount = n
	if d > 0 {
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: ago(d)}
	}
	return c
}

// tablePod returns a pod with these statuses: init containers, where a name that begins with s
// is a sidecar, and app containers.
func tablePod(phase corev1.PodPhase, inits, apps []corev1.ContainerStatus, conditions ...corev1.PodConditionType) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: ago(90 * time.Second)}}
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range inits {
		spec := corev1.Container{Name: c.Name}
		if strings.HasPrefix(c.Name, "s") {
			spec.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, spec)
	}
	for _, c := range apps {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name})
	}
	pod.Status = corev1.PodStatus{Phase: phase, InitContainerStatuses: inits, ContainerStatuses: apps}
	for _, kind := range conditions {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	return pod
}

func TestPodTableStatus(t *testing.T) {
	type list = []corev1.ContainerStatus
	const pending, running, succeeded, failed = corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed
	creating, initializing := waits("a", "ContainerCreating"), waits("a", "PodInitializing")
	deleted := func(pod corev1.Pod) corev1.Pod {
		pod.DeletionTimestamp = &metav1.Time{Time: tableNow}
		return pod
	}
	because := func(pod corev1.Pod, reason string) corev1.Pod {
		pod.Status.Reason = reason
		return pod
	}
	tests := []struct {
		name string
		pod  corev1.Pod
		want string // READY STATUS RESTARTS
	}{
		{"no status yet", tablePod(pending, nil, nil), "0/0 Pending 0"},
		{"creating", tablePod(pending, nil, list{creating}), "0/1 ContainerCreating 0"},
		{"created, not started", tablePod(pending, nil, list{waits("a", "")}), "0/1 Pending 0"},
		{"running", tablePod(running, nil, list{runs("a"), runs("b")}, corev1.PodReady), "2/2 Running 0"},
		{"running, not ready", tablePod(running, nil, list{unreadyOne(runs("a")), runs("b")}), "1/2 Running 0"},
		{"image", tablePod(pending, nil, list{waits("a", "ErrImagePull")}), "0/1 ErrImagePull 0"},
		{"config", tablePod(pending, nil, list{waits("a", "CreateContainerConfigError")}), "0/1 CreateContainerConfigError 0"},
		{"crash loop", tablePod(running, nil, list{restarted(waits("a", "CrashLoopBackOff"), 3, 30*time.Second)}), "0/1 CrashLoopBackOff 3 (30s ago)"},
		{"the first container has the last word", tablePod(running, nil, list{ends("a", "Error", 1, 0), waits("b", "CrashLoopBackOff")}), "0/2 Error 0"},
		{"completed", tablePod(succeeded, nil, list{ends("a", "Completed", 0, 0)}), "0/1 Completed 0"},
		{"failed", tablePod(failed, nil, list{ends("a", "Error", 1, 0)}), "0/1 Error 0"},
		{"killed for memory", tablePod(failed, nil, list{ends("a", "OOMKilled", 137, 0)}), "0/1 OOMKilled 0"},
		{"no reason", tablePod(failed, nil, list{ends("a", "", 42, 0)}), "0/1 ExitCode:42 0"},
		{"signal", tablePod(failed, nil, list{ends("a", "", 137, 9)}), "0/1 Signal:9 0"},
		{"one completed, one runs, ready", tablePod(running, nil, list{ends("a", "Completed", 0, 0), runs("b")}, corev1.PodReady), "1/2 Running 0"},
		{"one completed, one runs", tablePod(running, nil, list{ends("a", "Completed", 0, 0), runs("b")}), "1/2 NotReady 0"},
		{"one completed, one failed", tablePod(failed, nil, list{ends("a", "Completed", 0, 0), ends("b", "Error", 1, 0)}), "0/2 Error 0"},
		{"evicted", because(tablePod(failed, nil, nil), "Evicted"), "0/0 Evicted 0"},
		{"terminating", deleted(tablePod(running, nil, list{runs("a")})), "1/1 Terminating 0"},
		{"terminating, its containers have ended", deleted(tablePod(running, nil, list{ends("a", "Error", 137, 0)})), "0/1 Terminating 0"},
		{"deleted while terminating", because(deleted(tablePod("", nil, list{ends("a", "Error", 137, 0)})), ReasonDeleted), "0/1 Deleted 0"},
		{"ended, then deleted", deleted(tablePod(succeeded, nil, list{ends("a", "Completed", 0, 0)})), "0/1 Completed 0"},

		{"stopped", because(tablePod(succeeded, nil, list{ends("a", "Completed", 0, 0)}), lifecycle.ReasonStopped), "0/1 Stopped 0"},
		{"stopped, its container was killed", because(tablePod(failed, nil, list{ends("a", "Error", 137, 0)}), lifecycle.ReasonStopped), "0/1 Stopped 0"},
		{"being stopped", because(tablePod(running, nil, list{runs("a")}), lifecycle.ReasonStopping), "1/1 Stopping 0"},

		{"init", tablePod(pending, list{waits("i", "PodInitializing"), waits("j", "PodInitializing")}, list{initializing}), "0/1 Init:0/2 0"},
		{"second init runs", tablePod(pending, list{ends("i", "Completed", 0, 0), runs("j")}, list{initializing}), "0/1 Init:1/2 0"},
		{"init crash loop", tablePod(pending, list{restarted(waits("i", "CrashLoopBackOff"), 2, 5*time.Minute)}, list{initializing}), "0/1 Init:CrashLoopBackOff 2 (5m ago)"},
		{"init error", tablePod(pending, list{ends("i", "Error", 1, 0)}, list{initializing}), "0/1 Init:Error 0"},
		{"init exit code", tablePod(pending, list{ends("i", "", 3, 0)}, list{initializing}), "0/1 Init:ExitCode:3 0"},
		{"init signal", tablePod(pending, list{ends("i", "", 143, 15)}, list{initializing}), "0/1 Init:Signal:15 0"},
		{"init image", tablePod(pending, list{waits("i", "ImagePullBackOff")}, list{initializing}), "0/1 Init:ImagePullBackOff 0"},
		{"init done, app next", tablePod(pending, list{ends("i", "Completed", 0, 0)}, list{initializing}), "0/1 PodInitializing 0"},
		{"init's restarts are forgotten", tablePod(running, list{restarted(ends("i", "Completed", 0, 0), 4, time.Hour)}, list{runs("a")}), "1/1 Running 0"},
		{"sidecar starts", tablePod(pending, list{waits("s", "PodInitializing")}, list{initializing}), "0/2 Init:0/1 0"},
		{"sidecar and app", tablePod(running, list{runs("s")}, list{runs("a")}, corev1.PodReady), "2/2 Running 0"},
		{"sidecar not ready", tablePod(running, list{unreadyOne(runs("s"))}, list{runs("a")}), "1/2 Running 0"},
		{"sidecar's restarts count", tablePod(running, list{restarted(runs("s"), 2, time.Hour)}, list{restarted(runs("a"), 1, 3*time.Hour)}), "2/2 Running 3 (60m ago)"},
		{"sidecar crashes after initialization", tablePod(running, list{restarted(waits("s", "CrashLoopBackOff"), 2, 0)}, list{runs("a")}, corev1.PodInitialized), "1/2 Init:CrashLoopBackOff 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sum := Summarize(&tt.pod)
			var b bytes.Buffer
			if err := PodTable(&b, Screen{}, []corev1.Pod{tt.pod}, TableOptions{Now: tableNow}); err != nil {
				t.Fatal(err)
			}
			_, row, _ := strings.Cut(b.String(), "\n")
			got := strings.Join(strings.Fields(row), " ")
			if want := "web " + tt.want + " 90s"; got != want {
				t.Errorf("got %q, want %q (%+v)", got, want, sum)
			}
		})
	}
}

func TestPodTable(t *testing.T) {
	web := tablePod(corev1.PodRunning, nil, []corev1.ContainerStatus{restarted(runs("a"), 2, 5*time.Minute)}, corev1.PodReady)
	web.Status.PodIP, web.Spec.NodeName = "10.88.0.7", "edge-1"
	web.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: corev1.PodReady}, {ConditionType: "example.com/gate"}}
	job := tablePod(corev1.PodPending, []corev1.ContainerStatus{runs("i")}, []corev1.ContainerStatus{waits("a", "PodInitializing")})
	web.Spec.Containers[0].Image, web.Spec.Containers[0].Ports = "web:1", []corev1.ContainerPort{
		{HostIP: "127.0.0.1", HostPort: 80, ContainerPort: 8080},
		{HostIP: "::1", HostPort: 53, ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 9000},
	}
	job.Spec.Containers[0].Image = "job:3"
	job.Spec.InitContainers[0].Ports = []corev1.ContainerPort{{HostIP: "0.0.0.0", HostPort: 443, ContainerPort: 443}}
	job.Namespace, job.Name, job.CreationTimestamp = "batch", "a-job-with-a-long-name", metav1.Time{}
	pods := []corev1.Pod{web, job}
	tests := []struct {
		name string
		o    TableOptions
		pods []corev1.Pod
		want string
	}{
		{name: "none", o: TableOptions{}, want: ""},
		{name: "plain", pods: pods, want: `
NAME                     READY   STATUS     RESTARTS     AGE
web                      1/1     Running    2 (5m ago)   90s
a-job-with-a-long-name   0/1     Init:0/1   0            <unknown>
`},
		{name: "wide, all namespaces", o: TableOptions{Wide: true, Namespaces: true}, pods: pods, want: `
NAMESPACE   NAME                     READY   STATUS     RESTARTS     AGE         IP          NODE     NOMINATED NODE   READINESS GATES   IMAGES   PORTS
default     web                      1/1     Running    2 (5m ago)   90s         10.88.0.7   edge-1   <none>           1/2               web:1    127.0.0.1:80->8080/TCP,[::1]:53->53/UDP,9000/TCP
batch       a-job-with-a-long-name   0/1     Init:0/1   0            <unknown>   <none>      <none>   <none>           <none>            job:3    443->443/TCP
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Now = tableNow
			var b bytes.Buffer
			if err := PodTable(&b, Screen{}, tt.pods, tt.o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), b.String()); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodTableFootnote(t *testing.T) {
	web := tablePod(corev1.PodRunning, nil, []corev1.ContainerStatus{runs("a")}, corev1.PodReady)
	web.Namespace, web.UID = "shop", "1"
	other := tablePod(corev1.PodRunning, nil, []corev1.ContainerStatus{runs("a")}, corev1.PodReady)
	for _, tt := range []struct {
		name         string
		width        int
		known        map[types.UID]time.Time
		status, note string
	}{
		{"observed now", 0, nil, "Running", ""},
		{"not a terminal", 0, map[types.UID]time.Time{"1": tableNow.Add(-9 * time.Second)}, "Running (as of 9s ago)", "(as of …): no command probes the pod now"},
		{"wide", 80, map[types.UID]time.Time{"1": tableNow.Add(-9 * time.Second)}, "Running (as of 9s ago)", "(as of …): no command probes the pod now"},
		{"narrow", 50, map[types.UID]time.Time{"1": tableNow.Add(-9 * time.Second)}, "Running*", "*: no command probes the pod now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b, notes bytes.Buffer
			o := TableOptions{Now: tableNow, KnownAt: tt.known, Notes: &notes}
			if err := PodTable(&b, Screen{Width: tt.width}, []corev1.Pod{web, other}, o); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), "1/1     "+tt.status+"   ") {
				t.Errorf("want status %q:\n%s", tt.status, b.String())
			}
			got := strings.Join(strings.Fields(notes.String()), " ")
			if !strings.HasPrefix(got, tt.note) || (tt.note == "") != (got == "") || got != "" && !strings.Contains(got, "'podrun wait web -n shop'") {
				t.Errorf("footnote %q, want %q", got, tt.note)
			}
		})
	}
}

// TestPodTableRequestedColumns: if a terminal is too narrow for the columns of -o wide and -L,
// it wraps the lines. podrun truncates the lines of all other tables.
func TestPodTableRequestedColumns(t *testing.T) {
	web := tablePod(corev1.PodRunning, nil, []corev1.ContainerStatus{runs("a")}, corev1.PodReady)
	web.Labels = map[string]string{"app": "a-label"}
	web.Status.PodIP, web.Spec.NodeName = "10.88.0.7", "edge-1"
	for _, tt := range []struct {
		o    TableOptions
		want string
	}{
		{TableOptions{}, "RESTARTS   A…\n"},
		{TableOptions{Wide: true, Namespaces: true}, "10.88.0.7   edge-1   <none>           <none>            <none>   <none>\n"},
		{TableOptions{LabelColumns: []string{"app"}}, "a-label\n"},
		{TableOptions{ShowLabels: true}, "app=a-label\n"},
	} {
		var b bytes.Buffer
		tt.o.Now = tableNow
		if err := PodTable(&b, Screen{Width: 38}, []corev1.Pod{web}, tt.o); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tt.want) {
			t.Errorf("%+v: no %q in:\n%s", tt.o, tt.want, b.String())
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestPodTableWriteError(t *testing.T) {
	if err := PodTable(fullDisk{}, Screen{}, []corev1.Pod{{}}, TableOptions{}); !errors.Is(err, errFull) {
		t.Errorf("error = %v, want %v", err, errFull)
	}
}
