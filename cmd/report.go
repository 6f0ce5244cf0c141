package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
)

// podResult describes a pod in the JSON summary.
type podResult struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	UID       string   `json:"uid"`
	Outcome   string   `json:"outcome"`
	What      []string `json:"what,omitempty"` // changed fields, or restarted containers
	Phase     string   `json:"phase,omitempty"`
	PodIP     string   `json:"podIP,omitempty"`
	Error     string   `json:"error,omitempty"`
	// Problems are the problems in Error, each with its object and, if known, its reason.
	Problems problem.List `json:"problems,omitempty"`
	// Containers describes how the containers of a deleted pod exited.
	Containers []lifecycle.Ended `json:"containers,omitempty"`
}

// serviceResult describes a Service in the JSON summary.
type serviceResult struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Outcome   string `json:"outcome"` // created, configured, unchanged or deleted
}

// objectResult describes an object that is neither a pod nor a Service in the JSON summary.
type objectResult struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Outcome   string `json:"outcome"`
}

// otherResults describe the objects of a report that are not pods.
type otherResults struct {
	Services []serviceResult `json:"services,omitempty"`
	Objects  []objectResult  `json:"objects,omitempty"`
}

// summary is the output of apply and delete with -o json.
type summary struct {
	Pods []podResult `json:"pods"`
	otherResults
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason"`
	// Error and Problems are set if the command failed before it processed any pod.
	Error    string       `json:"error,omitempty"`
	Problems problem.List `json:"problems,omitempty"`
}

// summarizeFailure prints the summary of a command that failed before it had
// any results.
func (a *app) summarizeFailure(err error) {
	if !a.summaryDue || a.output != "json" && a.output != "yaml" {
		return
	}
	sum := summaryOf(run.Report{}, err)
	// A failed write is not reported: the error of the command is more important, and is already
	// on stderr.
	_ = view.PrintData(a.raw.Out, a.output, sum)
}

func resultOf(r run.Result) podResult {
	p := podResult{Namespace: r.ID.Namespace, Name: r.ID.Name, UID: r.ID.UID, Outcome: string(r.Outcome), What: r.What,
		Phase: string(r.Status.Phase), PodIP: r.Status.PodIP, Containers: r.Containers}
	if r.Err != nil {
		p.Error = view.ShownText(r.Err.Error())
		problem.Each(r.Err, func(each error) { p.Problems = append(p.Problems, view.ShownProblems(problem.Of(each))...) })
	}
	return p
}

// othersOf returns the results of a report's objects that are not pods.
func othersOf(entries []run.Entry) (out otherResults) {
	for _, e := range entries {
		switch e.Kind {
		case apikind.Pod:
		case apikind.Service:
			out.Services = append(out.Services, serviceResult{Namespace: e.ID.Namespace, Name: e.ID.Name, Outcome: string(e.Outcome)})
		default:
			out.Objects = append(out.Objects, objectResult{Kind: e.Kind, Namespace: e.ID.Namespace, Name: e.ID.Name, Outcome: string(e.Outcome)})
		}
	}
	return out
}

// summaryOf returns the summary of a report whose errors, joined with others, are err.
func summaryOf(r run.Report, err error) summary {
	sum := summary{Pods: []podResult{}, otherResults: othersOf(r.Entries), ExitCode: exit.Code(err)}
	for _, e := range r.Pods() {
		sum.Pods = append(sum.Pods, resultOf(e.Result))
	}
	sum.Reason = exit.Reason(sum.ExitCode)
	if err != nil && len(sum.Pods) == 0 {
		sum.Error = view.ShownText(err.Error())
		problem.Each(err, func(each error) {
			if e, ok := errors.AsType[*problem.Error](each); ok {
				sum.Problems = append(sum.Problems, view.ShownProblems(e.Problems)...)
			}
		})
	}
	return sum
}

// report prints what an operation has done, and returns the errors of its objects joined with others.
func (a *app) report(r run.Report, others ...error) error {
	err := errors.Join(append(others, r.Err())...)
	a.summaryDue = false
	if a.output == "json" || a.output == "yaml" {
		return errors.Join(err, view.PrintData(a.raw.Out, a.output, summaryOf(r, err)))
	}
	a.printLines(r.Entries)
	return err
}

// printLines prints a line for each object that an operation has changed, as text or only its name: first the
// objects other than pods. It prints nothing if the output is JSON or YAML.
func (a *app) printLines(entries []run.Entry) {
	if a.output != "" && a.output != "name" {
		return
	}
	byKind := slices.Clone(entries)
	slices.SortStableFunc(byKind, func(x, y run.Entry) int { return order(x) - order(y) })
	for _, e := range byKind {
		if line := a.lineOf(e); line != "" {
			fmt.Fprintln(a.streams.Out, line)
		}
	}
}

// order returns the position of an entry's line.
func order(e run.Entry) int {
	switch e.Kind {
	case apikind.Pod:
		return 2
	case apikind.Service:
		return 1
	}
	return 0
}

// lineOf returns the line of an entry, or "" for an object whose error says all that the line would say.
func (a *app) lineOf(e run.Entry) string {
	name := resourceOf(e.Kind) + "/" + e.ID.Name
	switch {
	case e.Outcome == run.OutcomeMarked: // a failure, which reportDelete explains
		return ""
	case e.Kind != apikind.Pod && a.output == "name":
		return name
	case e.Kind != apikind.Pod:
		return name + " " + string(e.Outcome)
	}
	p := resultOf(e.Result)
	switch {
	case a.output == "name" && e.Err != nil:
		return ""
	case a.output == "name":
		return name
	case e.Err == nil || len(reasonsOf(p.Problems)) > 0:
		return a.screenOf(a.outTerminal).Wrap(view.Escape(name + " " + outcomeText(p)))
	}
	return ""
}

// reportCompleted prints the exit codes of the requested pods, and the outcomes of the other objects. It returns
// an error with the exit code of the command.
func (a *app) reportCompleted(r run.Report, err error) error {
	var requested, removed, others []run.Entry
	for _, e := range r.Entries {
		switch {
		case e.Kind != apikind.Pod:
			others = append(others, e)
		case e.Unrequested:
			removed = append(removed, e)
		default:
			requested = append(requested, e)
		}
	}
	a.printLines(others)
	a.printCompleted(requested)
	a.printLines(removed)
	return a.reportRun(r, err, endPolicy{policy: lifecycle.ExitAny})
}

// printCompleted prints a line for each pod that has completed, unless the output is the
// summary of reportRun.
func (a *app) printCompleted(pods []run.Entry) {
	for _, e := range pods {
		switch {
		case e.Err != nil:
		case a.output == "name":
			fmt.Fprintf(a.streams.Out, "pod/%s\n", e.ID.Name)
		case a.output == "" && e.Status.Phase == corev1.PodFailed:
			fmt.Fprintf(a.streams.Out, "pod/%s failed\n", e.ID.Name)
		case a.output == "":
			fmt.Fprintf(a.streams.Out, "pod/%s completed\n", e.ID.Name)
		}
	}
}

// reasonsOf returns the distinct reasons of problems.
func reasonsOf(l problem.List) []string {
	var out []string
	for _, p := range l {
		if p.Reason != "" && !slices.Contains(out, p.Reason) {
			out = append(out, p.Reason)
		}
	}
	return out
}

// outcomeText returns the outcome with its details, such as "replaced: spec.hostname
// changed" or "failed: CreateContainerError".
func outcomeText(p podResult) string {
	text := p.Outcome
	if p.Error != "" {
		return text + ": " + strings.Join(reasonsOf(p.Problems), ", ")
	}
	if len(p.What) > 0 {
		text += ": " + strings.Join(p.What, ", ")
	}
	if p.Outcome == string(run.OutcomeReplaced) && len(p.What) > 0 {
		text += " changed"
	}
	return text
}

// renderer returns the renderer for the messages of a command that prints a summary at
// its end.
func (a *app) renderer() *renderer {
	a.summaryDue = true
	a.jsonMessages = a.output == "json"
	a.surviveBrokenPipes()
	return a.messageRenderer()
}
