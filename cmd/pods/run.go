package pods

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/ownruntime"
)

type runFlags struct {
	cli.InputFlags
	imageFlags
	run.RunOptions
	envPairs, envFiles, setImages []string
	keep                          bool
	logFile                       string
	outputs                       outputFlag
	events                        containerEvents
	remove                        bool
	quiet                         bool
	stdin                         bool
	tty                           bool
	policy                        string
	dryRun                        string
}

// NewRun returns the command run.
func NewRun(a *cli.App) *cobra.Command {
	f := &runFlags{InputFlags: cli.InputFlags{ToCompletion: true}}
	c := &cobra.Command{
		Use:   "run FILE... | IMAGE [COMMAND...]",
		Short: "Run a pod to completion, print its logs and exit with its exit code",
		Long: `Run a new pod, defined by manifests or by an image and flags, to completion: start it,
stream the logs of its containers, remove it, and exit with the first non-zero exit code
of its containers. With --exit-code-from=CONTAINER, the run ends when this container
ends, even if others are still running.

The standard output of containers goes to stdout, their standard error and
podrun's messages to stderr. The default restartPolicy is Never. SIGINT or SIGTERM
stops the pod within its grace period and removes it; a second signal of the same
kind ends podrun immediately. SIGTERM after SIGINT shortens the grace period to 1.5 s.

With -i, the pod's container reads standard input; with -t, it has a terminal. With
both, your terminal is connected to the container until it ends. If the pod has several
containers, -i and -t apply to the container that the annotation
kubectl.kubernetes.io/default-container names, or else to the first container.

For CI, -o github prints workflow commands of GitHub Actions: it groups the logs, and
annotates the lines of the manifest that have problems or define a container that failed.
-o junit=FILE also writes a test report in which each container is a test case.

The first argument is a manifest if it is a URL, an existing path, or a name that ends in
.yaml, .yml or .json. Otherwise it is an image, and podrun passes the following arguments
to the container. The flags that define the pod are the flags of docker run or, with
--image, of kubectl run; --dry-run=client -o yaml prints the manifest.

With -d, run works like 'podrun apply'.

run refuses the name of an existing pod, unless --replace is set. If an earlier run kept
its pod (--keep) and that pod has ended, run replaces it and prints a warning.`,
		Example: `  podrun run job.yaml
  podrun run --exit-code-from test --timeout 5m -f ci/
  podrun run -it --rm busybox:1.36 sh
  podrun run -v "$PWD:/src" -w /src golang:1.26 go test ./...
  podrun run -d --name web -p 8080:80 nginx:1.27
  podrun run -o json job.yaml > result.json
  podrun run -o github -o junit=report.xml ci.yaml`,
		RunE: func(c *cobra.Command, named []string) error { return runRun(a, c, f, named) },
	}
	flags := c.Flags()
	f.InputFlags.Add(flags)
	f.imageFlags.add(flags)
	// the global flag without its shorthand: in this command, -v is --volume
	flags.BoolVar(&a.Verbose, "verbose", false, "print more on stderr")
	addDryRun(flags, &f.dryRun)
	flags.StringArrayVarP(&f.envPairs, "env", "e", nil, "environment `variable` of all containers, including init containers: NAME=VALUE, or NAME for the value in podrun's environment; repeatable")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "`file` with lines NAME=VALUE for --env; repeatable")
	flags.StringArrayVar(&f.setImages, "set-image", nil, "use another image for a container of the manifest: `CONTAINER=IMAGE`, or '*=IMAGE' for all; repeatable")
	flags.BoolVar(&f.keep, "keep", false, "keep the pods when they have ended, like --rm=false, and print how to remove them")
	flags.StringVar(&f.logFile, "log-file", "", "also write the containers' logs to this `file`, with the same prefixes; an existing file is replaced")
	flags.DurationVar(&f.Timeout, "timeout", 0, "time limit of the run; 0 for no limit")
	flags.BoolVar(&f.remove, "rm", true, "remove the pods when they have ended")
	flags.BoolVar(&f.Replace, "replace", false, "replace a pod of the same name that is running, or that apply or serve started")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not print events")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "pass standard input to the pod's container")
	flags.BoolVarP(&f.tty, "tty", "t", false, "give the container a terminal; with -i, your terminal is connected to it")
	flags.StringVar(&f.ExitFrom, "exit-code-from", "", "end the run when this `container` ends, and exit with its code")
	flags.StringVar(&f.policy, "exit-code-policy", string(lifecycle.ExitAny), "exit code to use: any (first failed container), all (only if all failed) or none")
	flags.StringVar(&f.RestartPolicy, "restart-policy", "", "override the restartPolicy of the pods: Never or OnFailure")
	flags.VarP(&f.outputs, "output", "o", "`format` of the output: json or yaml prints a summary on stdout, and the logs on stderr; github prints groups and annotations for a GitHub workflow; junit=FILE also writes a test report to FILE; repeatable")
	return c
}

// runPullLimit is the default --pull-timeout of run. By default, run has no --timeout, but a
// registry that is down must not block a CI job until the job's own limit. It equals apply's
// default --timeout.
const runPullLimit = 10 * time.Minute

// detached returns the command line of run with -d, in quotation marks.
func detached(a *cli.App) string {
	at := slices.Index(a.Line.Typed, "run") + 1
	return a.Line.WithWords(at, at, "-d")
}

// check validates the values of flags.
func (f *runFlags) check(c *cobra.Command, a *cli.App, named []string) error {
	if _, err := lifecycle.ParseExitPolicy(f.policy); err != nil {
		return grammar.Usage(c, fmt.Errorf("--exit-code-policy: %w", err))
	}
	if f.Generated != nil && f.PodFlags.Restart == corev1.RestartPolicyAlways {
		return problem.UsageError(fmt.Errorf("--restart=%s: the pod would not end", f.restart), "to start the pod in the background, use "+detached(a)+"; or use --restart=OnFailure")
	}
	if f.RestartPolicy != "" && !slices.Contains([]string{"Never", "OnFailure"}, f.RestartPolicy) {
		return grammar.Usage(c, fmt.Errorf("--restart-policy=%s is not Never or OnFailure: the pod would not end", f.RestartPolicy))
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", outputGitHub, "junit=FILE"); err != nil {
		return err
	}
	if (f.stdin || f.tty) && (f.outputs != outputFlag{}) {
		return grammar.Usage(c, errors.New("-i and -t cannot be used with -o"))
	}
	if f.tty && f.logFile != "" {
		return grammar.Usage(c, errors.New("-t and --log-file cannot be used together: podrun does not log the output of a terminal"))
	}
	return nil
}

// prepare determines whether the command line names an image or manifests. If it names an
// image, prepare creates the pod.
func (f *runFlags) prepare(c *cobra.Command, a *cli.App, named []string) (rest []string, err error) {
	if f.keep && c.Flags().Changed("rm") && f.remove {
		return nil, grammar.Usage(c, errors.New("--keep and --rm contradict each other"))
	}
	f.remove = f.remove && !f.keep
	if f.Env, err = readEnv(c.Context(), c, f.envFiles, f.envPairs); err != nil {
		return nil, err
	}
	if f.Images, err = parseImages(c, f.setImages); err != nil {
		return nil, err
	}
	if f.isImageRun(named) {
		return nil, f.define(c, a, named)
	}
	if err := f.checkNamed(c, named); err != nil {
		return nil, err
	}
	if err := f.checkDefinition(c, a); err != nil {
		return nil, err
	}
	if f.restart != "" {
		policy, err := restartPolicy(f.restart)
		if err != nil {
			return nil, grammar.Usage(c, err)
		}
		f.RestartPolicy = string(policy)
	}
	return named, nil
}

// checkNamed rejects arguments after --, because a manifest sets the command of its containers.
// It also rejects names of files that are probably misspelled.
func (f *runFlags) checkNamed(c *cobra.Command, named []string) error {
	if dash := c.ArgsLenAtDash(); dash >= 0 && dash < len(named) {
		return problem.UsageError(fmt.Errorf("the manifest sets the command: %s cannot be given after --", shellword.Join(named[dash:])),
			"set the container's command in the manifest, or use 'podrun apply FILE' and 'podrun exec NAME -- "+shellword.Join(named[dash:])+"'")
	}
	for _, name := range named {
		if err := grammar.Misspelled(name); err != nil {
			return err
		}
	}
	return nil
}

func runRun(a *cli.App, c *cobra.Command, f *runFlags, named []string) error {
	if a.Output = f.outputs.format; a.Output == outputGitHub {
		startWorkflow(a)
	}
	if err := f.keepInput(named); err != nil {
		return err
	}
	report, err := openReport(f.outputs.junit)
	if err != nil {
		return err
	}
	return report.close(c.Context(), a, runPods(a, c, f, named, report))
}

// runPods runs, or only checks, the pods that the command line defines. It adds the results to
// report, unless report is nil.
func runPods(a *cli.App, c *cobra.Command, f *runFlags, named []string, report *testReport) error {
	named, err := f.prepare(c, a, named)
	if err != nil {
		return err
	}
	if f.outputs.junit != "" && f.dryRun != cli.DryNone {
		return problem.UsageError(errors.New("-o junit cannot be used with --dry-run, which does not run containers"), "use -o github to annotate the problems of a manifest, or omit --dry-run")
	}
	f.ToCompletion = !f.detach
	if f.Generated != nil && f.dryRun == cli.DryClient {
		return printGenerated(a, c, &f.InputFlags, "pod", f.podName())
	}
	if f.detach {
		return runDetached(a, c, f, named)
	}
	if done, err := dryRun(a, c, f.dryRun, &f.InputFlags, named); done {
		return err
	}
	if err := f.check(c, a, named); err != nil {
		return err
	}
	return runToEnd(a, c, f, named, report)
}

// runToEnd runs the pods to completion.
func runToEnd(a *cli.App, c *cobra.Command, f *runFlags, named []string, report *testReport) error {
	r := a.Renderer()
	r.Quiet = f.quiet
	ctx, cancel := a.EndWithReader(c.Context())
	defer cancel()
	logFile, err := openLogFile(f.logFile, r)
	if err != nil {
		return err
	}
	defer logFile.close()
	r.Also(f.events.observe)
	closeAhead := a.ReadAhead(r)
	defer closeAhead()
	objects, err := f.LoadWithin(a, c, named, r.Warn)
	if err != nil {
		return err
	}
	a.Input = objects
	if err := f.checkExitFrom(c, objects); err != nil {
		return err
	}
	interactive, err := f.interact(c, a, objects)
	if err != nil {
		return err
	}
	if interactive == "" {
		r.Warn(unconnectedInput(objects))
	}
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Starts)
	if err != nil {
		return err
	}
	defer closeAll()
	node.PullLimit = runPullLimit
	node.Attended = f.Generated != nil && a.ErrTerminal != nil
	r.SeveralPods = len(objects.Pods) > 1
	f.AllowKubelet = a.AllowKubelet
	f.Keep = !f.remove
	f.Hurry = a.Work.SpeedUp
	a.TrackWork(r, node, cli.PodIDs(objects), run.UndoTimeout+cli.LongestGrace(objects))
	logs, err := newLogReader(c.Context(), a, node, r, objects, f.Keep)
	if err != nil {
		return err
	}
	logs.also(logFile.output)
	logs.also(report.logOf)
	f.Started = logs.start
	if interactive != "" {
		f.Started = (&attacher{logReader: logs, app: a, container: interactive, stdin: f.stdin, tty: f.tty, quiet: f.quiet}).start
	}
	ran, err := run.Run(ctx, node, objects, f.RunOptions)
	if err != nil {
		return err
	}
	ended := f.endedPods(ran)
	report.end(ended)
	if f.Keep {
		noteKept(r, ran)
	}
	return reportEnded(a, ran, ended, f)
}

// reportEnded is reportRun for run. It also annotates the containers for a GitHub workflow.
func reportEnded(a *cli.App, ran run.Report, ended []endedPod, f *runFlags) error {
	if a.Workflow != nil {
		for _, p := range ended {
			annotateContainers(a, p)
		}
	}
	return reportRun(a, ran, f.Invalid, f.endPolicy())
}

func (f *runFlags) endPolicy() endPolicy {
	return endPolicy{policy: lifecycle.ExitPolicy(f.policy), from: f.ExitFrom}
}

// endedPods returns the pods of a run in the order of the input.
func (f *runFlags) endedPods(ran run.Report) []endedPod {
	var out []endedPod
	for _, e := range ran.Pods() {
		code, err := f.endPolicy().codeOf(e)
		out = append(out, endedPod{id: e.ID, spec: e.Pod, ended: e.Containers, code: code, err: err, from: f.ExitFrom, events: &f.events})
	}
	return out
}

// noteKept prints how to remove the pods that --keep keeps.
func noteKept(r *cli.Renderer, ran run.Report) {
	for _, e := range ran.Pods() {
		if e.Status.Phase != "" {
			r.Print(fmt.Sprintf("pod/%s is kept: run 'podrun delete %s%s' to remove it", e.ID.Name, namespaceFlag(e.ID.Namespace), e.ID.Name))
		}
	}
}

// namespaceFlag returns the flag that a command line requires to name a pod of the namespace.
func namespaceFlag(namespace string) string {
	if namespace == "default" {
		return ""
	}
	return "-n " + namespace + " "
}

// checkExitFrom rejects the name of a container that no pod has.
func (f *runFlags) checkExitFrom(c *cobra.Command, objects *manifest.Objects) error {
	if f.ExitFrom == "" {
		return nil
	}
	for _, p := range objects.Pods {
		for _, list := range [][]corev1.Container{p.Object.Spec.InitContainers, p.Object.Spec.Containers} {
			if slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == f.ExitFrom }) {
				return nil
			}
		}
	}
	return grammar.Usage(c, fmt.Errorf("--exit-code-from: no pod has a container %q", f.ExitFrom))
}

// runPod describes a pod in the summary of run.
type runPod struct {
	cli.PodResult
	ExitCode   int               `json:"exitCode"`
	Containers []lifecycle.Ended `json:"containers"`
}

type runSummary struct {
	Pods []runPod `json:"pods"`
	cli.OtherResults
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason"`
}

// endPolicy determines the exit code of a command from the containers of pods that have ended.
type endPolicy struct {
	policy lifecycle.ExitPolicy
	from   string // the container of --exit-code-from
}

// reportRun prints the summary of pods that have ended and of the other objects of the report. It returns an error
// with the exit code of the command, which does not depend on the containers of unrequested pods. failed is the
// error that concerns no single object, such as files that podrun skipped because of --continue.
func reportRun(a *cli.App, r run.Report, failed error, end endPolicy) error {
	a.SummaryDue = false
	sum, errs := runSummaryOf(r, failed, end)
	err := errors.Join(errs...)
	sum.Reason = exit.Reason(sum.ExitCode)
	if err == nil && sum.ExitCode != exit.OK {
		sum.Reason = "Container"
	}
	if a.Output != "" && a.Output != "name" {
		if perr := view.PrintData(a.Raw.Out, a.Output, sum); perr != nil {
			return errors.Join(err, perr)
		}
	}
	if exit.Code(err) == sum.ExitCode {
		return err
	}
	if err != nil {
		a.PrintErrors(err)
	}
	// The JSON summary and the annotations already name the container whose exit code this is.
	if !a.JSONMessages && a.Workflow == nil {
		printExitSource(a, r.Pods(), sum.ExitCode)
	}
	return cli.ExitStatus(sum.ExitCode)
}

// runSummaryOf returns the summary of pods that have ended, and the errors that it contains.
func runSummaryOf(r run.Report, failed error, end endPolicy) (sum runSummary, errs []error) {
	sum = runSummary{Pods: []runPod{}, OtherResults: cli.OthersOf(r.Entries)}
	for _, e := range r.Pods() {
		code, err := exit.Code(e.Err), e.Err
		if !e.Unrequested {
			code, err = end.codeOf(e)
		}
		errs = append(errs, err)
		sum.Pods = append(sum.Pods, runPod{PodResult: cli.ResultOf(e.Result), ExitCode: code, Containers: e.Containers})
		sum.ExitCode = exit.Worse(sum.ExitCode, code)
	}
	if failed != nil {
		errs = append(errs, failed)
		sum.ExitCode = exit.Worse(sum.ExitCode, exit.Code(failed))
	}
	return sum, errs
}

// printExitSource prints which container exited with the code that podrun returns, because that
// code may look like one of podrun's own.
func printExitSource(a *cli.App, pods []run.Entry, code int) {
	for _, e := range pods {
		if e.Unrequested {
			continue
		}
		for _, c := range e.Containers {
			if int(c.ExitCode) == code {
				fmt.Fprintf(a.Streams.Err, "podrun: pod %s: container %s exited with %d (%s)\n", e.ID, c.Name, code, c.Reason)
				return
			}
		}
	}
}

// codeOf returns the exit code for one pod. If an error determines the code, it also returns the error.
func (p endPolicy) codeOf(e run.Entry) (int, error) {
	if e.Err != nil {
		return exit.Code(e.Err), e.Err
	}
	if p.from != "" && !hasContainer(e.Status, p.from) {
		return exit.OK, nil // the container of --exit-code-from belongs to another pod
	}
	code, ok := lifecycle.ExitCode(e.Status, e.Containers, p.policy, p.from)
	if ok {
		return code, nil
	}
	why := e.Status.Message
	if why == "" {
		why = "no container has a non-zero exit code"
	}
	err := &problem.Error{Kind: problem.Failed, Object: "pod " + e.ID.String(), Err: fmt.Errorf("failed: %s", why)}
	return exit.Code(err), err
}

// hasContainer reports whether a status has a container of that name.
func hasContainer(s corev1.PodStatus, name string) bool {
	is := func(c corev1.ContainerStatus) bool { return c.Name == name }
	return slices.ContainsFunc(s.InitContainerStatuses, is) || slices.ContainsFunc(s.ContainerStatuses, is)
}
