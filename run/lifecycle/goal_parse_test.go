package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestParseGoal(t *testing.T) {
	for text, want := range map[string]Goal{
		"started":                            GoalStarted,
		"Ready":                              GoalReady,
		"delete":                             GoalDeleted,
		"Completed":                          GoalCompleted,
		"condition=Ready":                    "condition=Ready",
		"condition=ready":                    "condition=ready",
		"Condition=Ready=false":              "condition=Ready=False",
		"condition=Ready=True":               "condition=Ready=True",
		"condition=available":                "condition=Ready",
		"condition=Available=False":          "condition=Available=False",
		"condition=complete":                 "phase=Succeeded",
		"condition=Complete=true":            "phase=Succeeded",
		"condition=failed":                   "phase=Failed",
		"phase=running":                      "phase=Running",
		"phase=Succeeded":                    "phase=Succeeded",
		"jsonpath={.status.phase}=Running":   "phase=Running",
		"jsonpath='{.status.phase}'=Running": "phase=Running",
	} {
		if got, err := ParseGoal(text); err != nil || got != want {
			t.Errorf("ParseGoal(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "never", "condition", "condition=", "condition==True", "condition=Ready=maybe", "phase=", "phase=Great", "jsonpath={.spec.nodeName}=x", "create"} {
		if got, err := ParseGoal(text); err == nil {
			t.Errorf("ParseGoal(%q) = %q, not an error", text, got)
		}
	}
}

func TestGoalConditionIgnoresCase(t *testing.T) {
	status := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}}
	for goal, want := range map[Goal]bool{
		"condition=Initialized": true, "condition=initialized": true, "condition=INITIALIZED=False": false,
		"condition=ready": false, "condition=ready=False": true, GoalReady: false, "condition=example": false,
	} {
		if got := goal.ReachedBy(status); got != want {
			t.Errorf("%s reached: %t, want %t", goal, got, want)
		}
	}
}
