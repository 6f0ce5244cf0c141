package lifecycle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Goal is the state of a pod that a command waits for: one of the constants
// below, phase=<phase>, condition=<type> or condition=<type>=<status>.
type Goal string

// The predefined goals.
const (
	GoalStarted   Goal = "started"   // every container was started and every postStart hook has finished
	GoalReady     Goal = "ready"     // GoalStarted is reached, and the condition Ready is true
	GoalCompleted Goal = "completed" // every app container has exited and will not be restarted
	GoalDeleted   Goal = "delete"    // the pod does not exist
	// The conditions Complete and Failed of a Job correspond to these phases of its pod.
	GoalSucceeded = Goal("phase=" + corev1.PodSucceeded)
	GoalFailed    = Goal("phase=" + corev1.PodFailed)

	GoalNever Goal = "never" // for supervision: no pod ever reaches this goal
)

// GoalDebugged returns the goal that is reached when an ephemeral container has been started. A
// command with this goal changes no other container of the pod.
func GoalDebugged(container string) Goal { return Goal("ephemeral=" + container) }

// Debugs returns the name of the ephemeral container for a goal of GoalDebugged, and "" for other
// goals.
func (g Goal) Debugs() string {
	name, _ := strings.CutPrefix(string(g), "ephemeral=")
	if name == string(g) {
		return ""
	}
	return name
}

// ParseGoal parses the value of --for or --wait like kubectl wait. Case is ignored. A condition
// must be True unless the value specifies another status (condition=Ready=False). The conditions
// of Deployments and Jobs correspond to those of their pod. Available means the condition Ready;
// Complete and Failed mean phases. A JSONPath expression (jsonpath={.status.podIP}) must select one field of
// the pod's status; without a value, the field must exist.
func ParseGoal(text string) (Goal, error) {
	for _, g := range []Goal{GoalStarted, GoalReady, GoalCompleted, GoalDeleted} {
		if strings.EqualFold(text, string(g)) {
			return g, nil
		}
	}
	key, value, _ := strings.Cut(text, "=")
	switch {
	case value == "":
	case strings.EqualFold(key, "condition"):
		kind, status, given := strings.Cut(value, "=")
		if kind == "" {
			break
		}
		if same, ok := workloadConditions[strings.ToLower(kind)]; ok && (!given || strings.EqualFold(status, "true")) {
			return same, nil
		}
		if !given {
			return Goal("condition=" + kind), nil
		}
		for _, s := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
			if strings.EqualFold(status, string(s)) {
				return Goal("condition=" + kind + "=" + string(s)), nil
			}
		}
	case strings.EqualFold(key, "jsonpath"):
		return parsePathGoal(value)
	case strings.EqualFold(key, "phase"):
		for _, p := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed} {
			if strings.EqualFold(value, string(p)) {
				return Goal("phase=" + p), nil
			}
		}
	}
	return "", fmt.Errorf("%q is not one of started, ready, completed, delete, condition=TYPE[=STATUS], phase=PHASE and jsonpath={.status.FIELD}[=VALUE]", text)
}

// parsePathGoal parses the value of jsonpath= in a goal: an expression, and the value that is required. As in kubectl,
// the expression may lack the braces, and the value may be quoted.
func parsePathGoal(text string) (Goal, error) {
	end := strings.LastIndex(text, "}") + 1
	if end == 0 {
		end = strings.Index(text+"=", "=")
	}
	path, want := strings.Trim(text[:end], "'\"{}"), strings.Trim(strings.TrimPrefix(strings.Trim(text[end:], "'\""), "="), "'\"")
	path = "." + strings.TrimPrefix(path, ".")
	if path == ".status.phase" && want != "" {
		return ParseGoal("phase=" + want)
	}
	if path != ".status" && !strings.HasPrefix(path, ".status.") {
		return "", fmt.Errorf("the expression %s does not select a field of the status", text)
	}
	if err := jsonpath.New("goal").Parse("{" + path + "}"); err != nil {
		return "", fmt.Errorf("%s is not a JSONPath expression: %w", text, err)
	}
	return Goal(pathPrefix + path + "}" + want), nil
}

// pathPrefix begins a goal for a field of the status. The expression ends with the last brace, and the required value
// follows.
const pathPrefix = "jsonpath={"

// reachedByPath reports whether the field of the status exists and has the value that the goal requires.
func (g Goal) reachedByPath(status corev1.PodStatus) bool {
	text := strings.TrimPrefix(string(g), "jsonpath=")
	end := strings.LastIndex(text, "}") + 1
	expression, want := jsonpath.New("goal"), text[end:]
	if expression.Parse(text[:end]) != nil {
		return false // ParseGoal has parsed it
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Pod{Status: status})
	if err != nil {
		return false
	}
	found, err := expression.FindResults(object) // an error means that a field does not exist
	if err != nil || len(found) != 1 || len(found[0]) != 1 || !found[0][0].IsValid() {
		return false
	}
	return want == "" || fmt.Sprint(found[0][0].Interface()) == want
}

// workloadConditions maps the conditions of Deployments and Jobs, in lower case, to conditions of
// pods.
var workloadConditions = map[string]Goal{
	"available": "condition=Ready",
	"complete":  GoalSucceeded,
	"failed":    GoalFailed,
}

// phase returns the phase in a goal phase=<phase>, and "" for other goals.
func (g Goal) phase() corev1.PodPhase {
	phase, _ := strings.CutPrefix(string(g), "phase=")
	if phase == string(g) {
		return ""
	}
	return corev1.PodPhase(phase)
}

// condition returns the condition in a goal condition=<type>, with the required status. For other
// goals, it returns "".
func (g Goal) condition() (string, corev1.ConditionStatus) {
	if g == GoalReady {
		return string(corev1.PodReady), corev1.ConditionTrue
	}
	condition, ok := strings.CutPrefix(string(g), "condition=")
	if !ok {
		return "", ""
	}
	kind, status, given := strings.Cut(condition, "=")
	if !given {
		return kind, corev1.ConditionTrue
	}
	return kind, corev1.ConditionStatus(status)
}

// Readiness reports whether the goal depends on the results of readiness probes (is). If it does, ready reports
// whether the probes must succeed or fail.
func (g Goal) Readiness() (ready, is bool) {
	kind, want := g.condition()
	is = strings.EqualFold(kind, string(corev1.PodReady)) || strings.EqualFold(kind, string(corev1.ContainersReady))
	return want == corev1.ConditionTrue, is
}

// Missing explains why a pod with the given status has not reached the goal.
func (g Goal) Missing(status corev1.PodStatus) string {
	kind, want := g.condition()
	for _, c := range status.Conditions {
		if strings.EqualFold(string(c.Type), kind) && c.Message != "" {
			return fmt.Sprintf("condition %s is not %s: %s", c.Type, want, c.Message)
		}
	}
	return fmt.Sprintf("it is %s, not %s", status.Phase, g)
}

// StartedGoal reports whether the pod has started. Its init containers must have completed, every app
// container must have been started in the current sandbox, and every postStart hook must have
// finished. A container in mine, which this command started, counts as started even if it has
// terminated since. Any other container that has terminated must first be restarted, if the
// restartPolicy requires it. If the pod has not started, waiting describes the first condition that
// is not met.
func StartedGoal(pod *corev1.Pod, obs *Observed, mine map[string]bool) (done bool, waiting string) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := obs.Container(c.Name)
		switch {
		case podutil.IsRestartableInitContainer(c) && (have == nil || have.State != Running):
			return false, fmt.Sprintf("sidecar %s is not running", c.Name)
		case podutil.IsRestartableInitContainer(c) && HasPostStart(c) && obs.Hooks[have.ID] != HookDone:
			return false, fmt.Sprintf("the postStart hook of sidecar %s has not finished", c.Name)
		case !podutil.IsRestartableInitContainer(c) && !AnyAppContainer(pod, obs) && (have == nil || have.State != Exited || have.ExitCode != 0):
			return false, fmt.Sprintf("init container %s has not finished", c.Name)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		have := obs.Container(c.Name)
		switch {
		case have == nil && obs.hasEnded(pod, c, obs.Latest(c.Name)):
		case have == nil || have.State == Created || have.State == Unknown:
			return false, fmt.Sprintf("container %s has not started", c.Name)
		case have.State == Exited && !mine[have.ID] && !obs.hasEnded(pod, c, have):
			return false, fmt.Sprintf("container %s is waiting to be restarted", c.Name)
		case have.State == Running && HasPostStart(c) && obs.Hooks[have.ID] != HookDone:
			return false, fmt.Sprintf("the postStart hook of container %s has not finished", c.Name)
		}
	}
	return true, ""
}

// ContainerEnded reports whether a container has exited and will not be started again. A sidecar is
// started again as long as the pod runs.
func ContainerEnded(pod *corev1.Pod, obs *Observed, name string) bool {
	spec, last := FindContainer(pod, name), obs.Latest(name)
	if spec.Container == nil || last == nil || last.State != Exited {
		return false
	}
	return obs.hasEnded(pod, spec.Container, last) || isRegularInit(pod, spec.Container) && last.ExitCode == 0
}

// ReachedBy reports whether a pod's status meets the goal.
func (g Goal) ReachedBy(status corev1.PodStatus) bool {
	switch {
	case g == GoalStarted:
		return status.Phase == corev1.PodRunning || status.Phase == corev1.PodSucceeded
	case g == GoalCompleted:
		return status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed
	case g.phase() != "":
		return status.Phase == g.phase()
	case strings.HasPrefix(string(g), pathPrefix):
		return g.reachedByPath(status)
	}
	kind, want := g.condition()
	for _, c := range status.Conditions {
		if strings.EqualFold(string(c.Type), kind) && c.Status == want {
			return true
		}
	}
	return false
}
