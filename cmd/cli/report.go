package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
)

// PodResult describes a pod in the JSON summary.
type PodResult struct {
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

// OtherResults describe the objects of a report that are not pods.
type OtherResults struct {
	Services []serviceResult `json:"services,omitempty"`
	Objects  []objectResult  `json:"objects,omitempty"`
}

// summary is the output of apply and delete with -o json.
type summary struct {
	Pods []PodResult `json:"pods"`
	OtherResults
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason"`
	// Error and Problems are set if the command failed before it processed any pod.
	Error    string       `json:"error,omitempty"`
	Problems problem.List `json:"problems,omitempty"`
}

// SummarizeFailure prints the summary of a command that failed before it had
// any results.
func (a *App) SummarizeFailure(err error) {
	if !a.SummaryDue || a.Output != "json" && a.Output != "yaml" {
		return
	}
	sum := summaryOf(run.Report{}, err)
	// A failed write is not reported: the error of the command is more important, and is already
	// on stderr.
	_ = view.PrintData(a.Raw.Out, a.Output, sum)
}

// ResultOf returns a result as the summary prints it.
func ResultOf(r run.Result) PodResult {
	p := PodResult{Namespace: r.ID.Namespace, Name: r.ID.Name, UID: r.ID.UID, Outcome: string(r.Outcome), What: r.What,
		Phase: string(r.Status.Phase), PodIP: r.Status.PodIP, Containers: r.Containers}
	if r.Err != nil {
		p.Error = view.ShownText(r.Err.Error())
		problem.Each(r.Err, func(each error) { p.Problems = append(p.Problems, view.ShownProblems(problem.Of(each))...) })
	}
	return p
}

// OthersOf returns the results of a report's objects that are not pods.
func OthersOf(entries []run.Entry) (out OtherResults) {
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
	sum := summary{Pods: []PodResult{}, OtherResults: OthersOf(r.Entries), ExitCode: exit.Code(err)}
	for _, e := range r.Pods() {
		sum.Pods = append(sum.Pods, ResultOf(e.Result))
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

// Report prints what an operation has done, and returns the errors of its objects joined with others.
func (a *App) Report(r run.Report, others ...error) error {
	err := errors.Join(append(others, r.Err())...)
	a.SummaryDue = false
	if a.Output == "json" || a.Output == "yaml" {
		return errors.Join(err, view.PrintData(a.Raw.Out, a.Output, summaryOf(r, err)))
	}
	a.PrintLines(r.Entries)
	return err
}

// PrintLines prints a line for each object that an operation has changed, as text or only its name: first the
// objects other than pods. It prints nothing if the output is JSON or YAML.
func (a *App) PrintLines(entries []run.Entry) {
	if a.Output != "" && a.Output != "name" {
		return
	}
	byKind := slices.Clone(entries)
	slices.SortStableFunc(byKind, func(x, y run.Entry) int { return order(x) - order(y) })
	for _, e := range byKind {
		if line := lineOf(a, e); line != "" {
			fmt.Fprintln(a.Streams.Out, line)
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
func lineOf(a *App, e run.Entry) string {
	name := ResourceOf(e.Kind) + "/" + e.ID.Name
	switch {
	case e.Outcome == run.OutcomeMarked: // a failure, which reportDelete explains
		return ""
	case e.Kind != apikind.Pod && a.Output == "name":
		return name
	case e.Kind != apikind.Pod:
		return name + " " + string(e.Outcome)
	}
	p := ResultOf(e.Result)
	switch {
	case a.Output == "name" && e.Err != nil:
		return ""
	case a.Output == "name":
		return name
	case e.Err == nil || len(reasonsOf(p.Problems)) > 0:
		return a.ScreenOf(a.OutTerminal).Wrap(view.Escape(name + " " + outcomeText(p)))
	}
	return ""
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
func outcomeText(p PodResult) string {
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

// Renderer returns the renderer for the messages of a command that prints a summary at
// its end.
func (a *App) Renderer() *Renderer {
	a.SummaryDue = true
	a.JSONMessages = a.Output == "json"
	a.SurviveBrokenPipes()
	return a.MessageRenderer()
}
