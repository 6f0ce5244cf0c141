package pods

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/servicesync"
)

type planFlags struct {
	cli.InputFlags
	facts     string
	showFacts bool
	secrets   bool // show their values
	full      bool
}

// NewPlan returns the command plan.
func NewPlan(a *cli.App) *cobra.Command {
	f := &planFlags{}
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Print what apply would do, and change nothing",
		Long: `Print what apply would do: for each pod, whether apply would create, update, replace
or refuse it, with its images and the order of its containers.

--full, or -o yaml or json, prints the whole plan: the result of admission, cgroups,
directories and volumes, images, and the CRI messages. Values that are not known
yet are in parentheses: (podIP), (imageID).

--show-facts prints the facts of this host; --facts FILE plans with facts from a
file instead, without a runtime.`,
		Example: `  podrun plan pod.yaml
  podrun plan --show-facts pod.yaml > facts.json
  podrun plan --facts facts.json pod.yaml --full`,
		RunE: func(c *cobra.Command, named []string) error { return runPlan(a, c, f, named) },
	}
	f.Add(c.Flags())
	c.Flags().StringVar(&f.facts, "facts", "", "plan with the facts of this `file` (JSON or YAML)")
	c.Flags().BoolVar(&f.showFacts, "show-facts", false, "print the facts of this host instead of the plan")
	c.Flags().BoolVar(&f.secrets, "show-secrets", false, "print the values of Secrets too")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print the whole plan as yaml or json")
	c.Flags().BoolVar(&f.full, "full", false, "print the whole plan, like -o yaml")
	return c
}

func runPlan(a *cli.App, c *cobra.Command, f *planFlags, named []string) error {
	if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
		return err
	}
	format := a.Output
	if format == "" && (f.full || f.secrets) {
		format = "yaml"
	}
	r := a.TextRenderer()
	f.Services = true
	objects, err := f.Load(c.Context(), a, c, named, r.Warn)
	if err != nil {
		return err
	}
	if objects.OnlyReferred() {
		return problem.UsageError(errors.New("podrun plans only pods, and the input has only ConfigMaps and Secrets"),
			"run 'podrun diff FILE' to show the change, or use --dry-run=client to check only the manifest")
	}
	if len(objects.Services) > 0 {
		r.Warn(append(servicesync.Notes(objects.Services), problem.Problem{
			Warning: true,
			Message: "the plan does not contain Services: apply assigns their virtual IPs",
		}))
	}
	node, closeAll, err := planNode(c.Context(), a, r, f)
	if err != nil {
		return err
	}
	defer closeAll()
	facts, err := readFacts(c.Context(), f.facts)
	if err != nil {
		return err
	}
	if f.showFacts {
		read, err := node.ReadFacts(c.Context(), objects, a.AllowKubelet)
		if err != nil {
			return err
		}
		if a.Output == "" {
			format = "json"
		}
		return view.PrintData(a.Raw.Out, format, read)
	}
	if f.CreateHint != "" {
		if err := run.CheckNew(c.Context(), node, objects, f.CreateHint); err != nil {
			return err
		}
	}
	targets, problems, err := node.Prepare(c.Context(), objects, run.PrepareOptions{AllowKubelet: a.AllowKubelet, Facts: facts, KeepReferred: true})
	if err != nil {
		return err
	}
	var views []prepare.PlanView
	for i := range targets {
		show := targets[i].View
		if f.secrets {
			show = targets[i].ViewSecrets
		}
		view, err := show()
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	if format == "" {
		view.PlanSummary(a.Streams.Out, views, problems)
	} else if err := view.PrintData(a.Raw.Out, format, planList{Plans: views, Problems: problems}); err != nil {
		return err
	}
	return problem.Refuse(problem.Refused, problems)
}

// planList is the output of plan.
type planList struct {
	Problems problem.List       `json:"problems,omitempty"`
	Plans    []prepare.PlanView `json:"plans"`
}

// planInvocation replaces the random ID of an invocation of apply.
const planInvocation = "(invocation)"

// planNode returns the node for plan. If --facts names a file, the node does not require
// a runtime.
func planNode(ctx context.Context, a *cli.App, r *cli.Renderer, f *planFlags) (*run.Node, func(), error) {
	if f.facts == "" {
		node, closeAll, err := a.OpenNode(ctx, r, ownruntime.Reads)
		if err == nil {
			// A random ID would make the plan differ between invocations.
			node.Invocation = planInvocation
		}
		return node, closeAll, err
	}
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return nil, nil, err
	}
	a.WarnAbout(r, notes)
	return &run.Node{Settings: settings, Invocation: planInvocation, Warn: r.Warn}, func() {}, nil
}

// maxFacts bounds the file of --facts, in bytes.
const maxFacts = 10 << 20

// readFacts reads the facts in a file, or returns nil if path is empty.
func readFacts(ctx context.Context, path string) (*host.Facts, error) {
	if path == "" {
		return nil, nil
	}
	bad := func(err error) error {
		return &problem.Error{Kind: problem.Usage, Object: "--facts", Err: err, Hint: "run 'podrun plan --show-facts' to print such a file"}
	}
	data, err := hostfile.ReadInput(ctx, path, maxFacts)
	if err != nil {
		return nil, bad(err)
	}
	facts := &host.Facts{}
	if err := manifest.Decode(input.Source{Name: path, Data: data}, facts); err != nil {
		return nil, bad(err)
	}
	return facts, nil
}
