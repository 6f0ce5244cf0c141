package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/prepare"
)

// maxListed is the maximum number of items on a line of the summary.
const maxListed = 8

// PlanSummary prints a few lines for each pod: its changes, its images, the reasons for a
// refusal, and the order of its containers.
func PlanSummary(w io.Writer, views []prepare.PlanView, problems problem.List) {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line := func(title, text string) {
			if text != "" {
				fmt.Fprintf(w, "  %-10s %s\n", title, OneLine(text))
			}
		}
		fmt.Fprintf(w, "pod %s: %s\n", v.Pod, changeText(v))
		line("changes", Listed(v.Changes, ", "))
		line("replaces", podList(v.Replaces))
		line("preempts", podList(v.Preempts))
		line("refused", Listed(refusals(v, problems), "; "))
		line("QoS", string(v.QOSClass)+groupOf(v))
		line("images", Listed(imageTexts(v), ", "))
		line("volumes", Listed(volumeTexts(v), ", "))
		line("order", "sandbox, "+Listed(orderTexts(v), ", "))
		line("users", v.UserNamespace)
		line("start", startText(v))
		var warnings []string
		for _, e := range v.Warnings {
			warnings = append(warnings, e.Reason)
		}
		line("warnings", Listed(warnings, ", "))
	}
}

// changeText describes the change that apply would make to the pod.
func changeText(v prepare.PlanView) string {
	switch v.Change {
	case prepare.ChangeNew:
		return "create"
	case prepare.ChangeUpdate:
		return "update in place"
	}
	return string(v.Change)
}

// Listed joins items; it counts items beyond maxListed instead of listing them.
func Listed(items []string, by string) string {
	if more := len(items) - maxListed; more > 0 {
		return strings.Join(items[:maxListed], by) + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(items, by)
}

func podList(pods []identity.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.String())
	}
	return Listed(out, ", ")
}

// refusals returns the reasons why podrun refuses the pod; stderr has the full messages.
func refusals(v prepare.PlanView, problems problem.List) []string {
	var out []string
	for _, p := range problems.Errors() {
		if p.Object != "Pod "+v.Pod.String() {
			continue
		}
		reason := p.Reason
		if p.Field != "" {
			reason += " (" + p.Field + ")"
		}
		if !slices.Contains(out, reason) {
			out = append(out, reason)
		}
	}
	return out
}

func groupOf(v prepare.PlanView) string {
	if len(v.Cgroup.Pods) == 0 {
		return ""
	}
	return ", cgroup " + v.Cgroup.Pods[0].Path
}

func imageTexts(v prepare.PlanView) []string {
	var out []string
	for _, i := range v.Images {
		out = append(out, fmt.Sprintf("%s (%s)", i.Name, i.Policy))
	}
	return out
}

func volumeTexts(v prepare.PlanView) []string {
	var out []string
	for _, each := range v.Volumes.Volumes {
		out = append(out, fmt.Sprintf("%s (%s)", each.Name, each.Kind))
	}
	return out
}

// startText describes which containers podrun creates early or starts in parallel. It returns ""
// if there are none.
func startText(v prepare.PlanView) string {
	switch v.StartOrder {
	case nodeconfig.StartParallel:
		return "app containers without a postStart hook start in parallel"
	case nodeconfig.StartStrict:
		return "each container is created after the previous one has started or completed"
	}
	var names []string
	for _, c := range v.Containers {
		if c.CreatedAhead {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return Listed(names, ", ") + ": podrun creates it while the previous container runs (init) or starts (app)"
}

func orderTexts(v prepare.PlanView) []string {
	var out []string
	for _, c := range v.Containers {
		text := c.Name
		if c.Kind != "app" {
			text = c.Kind + " " + c.Name
		}
		if c.PostStart != nil {
			text += " with its postStart hook"
		}
		out = append(out, text)
	}
	return out
}
