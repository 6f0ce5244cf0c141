package pods

import (
	"strings"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/junit"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/workflow"
)

// startWorkflow makes the command write everything to stdout, including workflow commands.
// GitHub's runner reads stdout and stderr concurrently, so the order of lines on both would be
// lost.
func startWorkflow(a *cli.App) {
	a.SurviveBrokenPipes()
	a.Workflow, a.Output = workflow.NewWriter(a.Raw.Out), ""
	a.Raw.Out, a.Raw.Err = a.Workflow.Text(), a.Workflow.Text()
	a.OutTerminal, a.ErrTerminal = nil, nil // lines are not wrapped
}

// annotateContainers writes an annotation for each container that failed: as an error if the pod
// counts as failed, else as a warning.
func annotateContainers(a *cli.App, p endedPod) {
	level := workflow.Error
	if p.code == exit.OK {
		level = workflow.Warning
	}
	outcomes, _ := p.containers()
	for _, o := range outcomes {
		if o.outcome == junit.Failed {
			cli.Annotate(a, level, "Container "+o.name+" failed", problem.Problem{Object: "pod " + p.id.String() + ": container " + o.name,
				Message: strings.TrimSpace(o.message + "\n" + o.details)})
		}
	}
}
