package pods

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
)

// reportCompleted prints the exit codes of the requested pods, and the outcomes of the other objects. It returns
// an error with the exit code of the command.
func reportCompleted(a *cli.App, r run.Report, err error) error {
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
	a.PrintLines(others)
	printCompleted(a, requested)
	a.PrintLines(removed)
	return reportRun(a, r, err, endPolicy{policy: lifecycle.ExitAny})
}

// printCompleted prints a line for each pod that has completed, unless the output is the
// summary of reportRun.
func printCompleted(a *cli.App, pods []run.Entry) {
	for _, e := range pods {
		switch {
		case e.Err != nil:
		case a.Output == "name":
			fmt.Fprintf(a.Streams.Out, "pod/%s\n", e.ID.Name)
		case a.Output == "" && e.Status.Phase == corev1.PodFailed:
			fmt.Fprintf(a.Streams.Out, "pod/%s failed\n", e.ID.Name)
		case a.Output == "":
			fmt.Fprintf(a.Streams.Out, "pod/%s completed\n", e.ID.Name)
		}
	}
}
