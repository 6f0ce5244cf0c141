package system

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewDoctor returns the command doctor.
func NewDoctor(a *cli.App) *cobra.Command {
	f := &cli.InputFlags{}
	c := &cobra.Command{
		Use:   "doctor [FILE...]",
		Short: "Diagnose why pods cannot run on this host and how to fix it",
		Long: `Check this host and its container runtime. For each check, doctor prints pass, warn
or fail, the problem, and the command or setting that fixes it. doctor changes
nothing, and also works if the runtime is not running.

With a FILE, doctor also prints whether this host would admit each pod and, if not,
all the reasons.

If this host cannot run pods, or cannot run any of the pods in FILE, the exit code is
122; otherwise it is 0.

-o json prints {"verdict", "findings", "pods", "facts", "checkup"}. Each finding
has "group", "check" (a stable name), "status" (pass, warn, fail, or skip if
another problem prevents the check), "summary" and "fix". "facts" is valid input
for 'podrun plan --facts'.`,
		Example: `  podrun doctor
  podrun doctor pod.yaml
  podrun doctor -o json | jq '.findings[] | select(.status == "fail")'`,
		RunE: func(c *cobra.Command, named []string) error { return runDoctor(a, c, f, named) },
	}
	f.Add(c.Flags())
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json or yaml")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "print only checks with a warning or a failure")
	return c
}

func runDoctor(a *cli.App, c *cobra.Command, f *cli.InputFlags, named []string) error {
	if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
		return err
	}
	r := a.Renderer()
	var objects *manifest.Objects
	if len(named)+len(f.Files) > 0 {
		var err error
		if objects, err = f.Load(c.Context(), a, c, named, r.Warn); err != nil {
			return err
		}
	}
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	options := run.DoctorOptions{AllowKubelet: a.AllowKubelet}
	if fault := a.Settings.Fault; fault == "" {
		a.WarnAbout(r, notes)
	} else {
		options.SettingsFault, options.SettingsFix = fault, "correct "+a.Settings.Config
	}
	before := settings
	client, err := a.Dial(c.Context(), r, &settings, ownruntime.Looks)
	if e, ok := err.(*problem.Error); ok && e.Kind == problem.Usage {
		return err
	} else if err != nil {
		options.NoRuntime = err
	} else {
		defer client.Close()
	}
	options.Embedded = a.Runtime(r, before).Embedded(c.Context())
	node := &run.Node{Client: client, Settings: settings, Warn: r.Warn}
	diagnosis, err := run.Doctor(c.Context(), node, objects, options)
	if err != nil {
		return err
	}
	if a.Output != "" {
		err = view.PrintData(a.Raw.Out, a.Output, diagnosis)
	} else {
		err = printDiagnosis(a.Raw.Out, a.ScreenOf(a.OutTerminal), diagnosis, a.Quiet)
	}
	if err != nil {
		return err
	}
	return diagnosis.Refusal()
}

// printDiagnosis writes one line per check, each followed by its fix, and a summary. If quiet
// is set, it prints only the checks with a warning or a failure.
func printDiagnosis(w io.Writer, s view.Screen, d run.Diagnosis, quiet bool) error {
	var b strings.Builder
	count := map[string]int{}
	line := func(status, text string) {
		text = s.Wrap(view.Escape(text))
		if status != "" {
			count[status]++
			text = strings.Replace(text, status, s.Paint(status, view.HueOf(status)), 1)
		}
		b.WriteString(text + "\n")
	}
	group := ""
	for _, f := range d.Findings {
		if quiet && f.Status != "warn" && f.Status != "fail" {
			continue
		}
		if f.Group != group {
			group = f.Group
			line("", group)
		}
		line(string(f.Status), fmt.Sprintf("  %-5s %-18s %s", f.Status, f.Check, view.Indented(f.Summary)))
		if f.Fix != "" && f.Status != "pass" {
			line("", fmt.Sprintf("%25s -> %s", "", view.Indented(f.Fix)))
		}
	}
	for _, p := range d.Pods {
		if quiet && len(p.Problems) == 0 {
			continue
		}
		line("", "pod "+p.Pod)
		if len(p.Problems) == 0 {
			line(string(p.Status), fmt.Sprintf("  %-5s this host would admit it", p.Status))
		}
		for _, q := range p.Problems {
			status := "fail"
			if q.Warning {
				status = "warn"
			}
			hint := q.Hint
			q.Hint, q.Object = "", ""
			line(status, fmt.Sprintf("  %-5s %s", status, view.Indented(q.String())))
			if hint != "" {
				line("", fmt.Sprintf("%8s-> %s", "", view.Indented(hint)))
			}
		}
	}
	if !quiet {
		line("", diagnosisSummary(count, d))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// diagnosisSummary counts the findings by status and states the conclusion.
func diagnosisSummary(count map[string]int, d run.Diagnosis) string {
	var parts []string
	for _, status := range []string{"pass", "warn", "fail", "skip"} {
		if n := count[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	follows := "pods can run on this host"
	if d.Refusal() != nil {
		follows = "pods cannot run on this host"
		if len(d.Pods) > 0 {
			follows = "these pods cannot run on this host"
		}
	}
	return strings.Join(parts, ", ") + ": " + follows
}
