package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// ExitPolicy selects the containers whose exit codes determine the exit code of a
// command that runs a pod to completion.
type ExitPolicy string

// The exit policies.
const (
	ExitAny  ExitPolicy = "any"  // the exit code of the first failed container, in the order of the spec
	ExitAll  ExitPolicy = "all"  // like ExitAny, but 0 if any app container succeeded
	ExitNone ExitPolicy = "none" // 0 if the pod ran to completion, whatever the exit codes
)

// ParseExitPolicy parses the value of --exit-code-policy. The error lists the valid policies.
func ParseExitPolicy(text string) (ExitPolicy, error) {
	switch p := ExitPolicy(text); p {
	case ExitAny, ExitAll, ExitNone:
		return p, nil
	}
	return "", fmt.Errorf("%q is not one of any, all and none", text)
}

// Ended describes how one container terminated.
type Ended struct {
	Name       string    `json:"name"`
	Kind       string    `json:"kind"` // init, sidecar or app
	ExitCode   int32     `json:"exitCode"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	Restarts   int32     `json:"restarts"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
}

// EndedContainers lists the terminated containers of a pod in the order of the spec. It returns nil if
// the pod has no definition (nil).
func EndedContainers(pod *corev1.Pod, status corev1.PodStatus) []Ended {
	if pod == nil {
		return nil
	}
	byName := map[string]corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			byName[c.Name] = c
		}
	}
	var out []Ended
	for _, c := range SpecContainers(pod) {
		st := byName[c.Container.Name]
		t := st.State.Terminated
		if t == nil || c.Ephemeral {
			continue
		}
		e := Ended{Name: st.Name, Kind: "app", ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message,
			Restarts: st.RestartCount, StartedAt: t.StartedAt.Time, FinishedAt: t.FinishedAt.Time}
		if t.StartedAt.Unix() == 0 {
			e.StartedAt = time.Time{} // its start failed
		}
		switch {
		case podutil.IsRestartableInitContainer(c.Container):
			e.Kind = "sidecar"
		case c.Init:
			e.Kind = "init"
		}
		out = append(out, e)
	}
	return out
}

// ExitCode returns the exit code of a pod that has ended: the exit code of the container named by
// from. If from is empty, the policy selects the container. The exit codes of sidecars are ignored.
// The result ok is false if the pod failed for a reason other than a container's exit code.
func ExitCode(status corev1.PodStatus, ended []Ended, policy ExitPolicy, from string) (code int, ok bool) {
	if status.Reason != "" {
		// DeadlineExceeded: the exit codes show only that podrun killed the containers.
		return 0, false
	}
	if from != "" {
		for _, e := range ended {
			if e.Name == from {
				return int(e.ExitCode), true
			}
		}
		return 0, false
	}
	if policy == ExitNone {
		return 0, true
	}
	first, failed, apps := 0, 0, 0
	for _, e := range ended {
		if e.Kind == "sidecar" {
			continue
		}
		if e.Kind == "app" {
			apps++
		}
		if e.ExitCode == 0 {
			continue
		}
		if e.Kind == "init" {
			return int(e.ExitCode), true
		}
		failed++
		if first == 0 {
			first = int(e.ExitCode)
		}
	}
	if policy == ExitAll && failed < apps {
		return 0, true
	}
	return first, first != 0 || status.Phase != corev1.PodFailed
}
