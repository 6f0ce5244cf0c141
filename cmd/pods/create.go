package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewCreate returns `podrun create`. It is apply for new pods, with kubectl's generators of manifests as subcommands.
func NewCreate(a *cli.App) *cobra.Command {
	f := &applyFlags{}
	c := newApplyWith(a, f)
	c.RunE = func(c *cobra.Command, named []string) error {
		f.New, f.NewHint = !f.Force, "to update or replace it, run "+asApply(a)
		return runApply(a, c, f, named)
	}
	c.Use = "create -f FILE"
	c.Short = "Start the pods of a manifest, or create a manifest from flags"
	c.Long = `With a file, create works like 'podrun apply', but refuses the name of an existing
pod, as kubectl does. --force recreates the pod.

The subcommands create an object from flags, as kubectl's subcommands do. With
--dry-run=client -o yaml, they print the object. Without these flags, podrun applies
the object; ConfigMaps and Secrets can only be printed.`
	c.Example = `  podrun create deployment web --image=nginx:1.27 --dry-run=client -o yaml > web.yaml
  podrun create configmap app --from-file=app.conf --dry-run=client -o yaml > app.yaml
  podrun create -f web.yaml --configmap app.yaml`
	c.AddCommand(newCreateDeployment(a), newCreateJob(a), newCreateCronJob(a), newCreateConfigMap(a), newCreateSecret(a))
	return c
}

// asApply returns the command line of create as one of apply, in quotation marks. The commands have the same flags.
func asApply(a *cli.App) string {
	at := slices.Index(a.Line.Typed, "create")
	if at < 0 {
		return "'podrun apply FILE'"
	}
	return a.Line.WithWords(at, at+1, "apply")
}

// addGenerator adds the flags of all generators.
func (f *applyFlags) addGenerator(c *cobra.Command, a *cli.App) {
	set := c.Flags()
	addDryRun(set, &f.dryRun)
	set.DurationVar(&f.Timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "print neither events nor the notice about supervision")
	set.StringVarP(&a.Output, "output", "o", "", "print the object or the outcome as json, yaml or name")
	f.wait, f.Validate = string(lifecycle.GoalStarted), string(manifest.Strict)
}

// workload is a generator of an object with a pod template.
type workload struct {
	applyFlags
	generate.WorkloadFlags
}

func (w *workload) add(c *cobra.Command, a *cli.App) {
	w.addGenerator(c, a)
	w.Replicas = 1
	c.Flags().StringSliceVar(&w.Images, "image", nil, "`image` of the container")
}

// check sets the name and the command, and checks the images.
func (w *workload) check(c *cobra.Command, given []string, images int) error {
	w.Name, w.Command = given[0], given[1:]
	switch {
	case len(w.Command) > 0 && c.ArgsLenAtDash() != 1:
		return problem.UsageError(fmt.Errorf("%s creates one object, but %d names are given", c.CommandPath(), len(given)), "write the command of the container after --: '"+c.CommandPath()+" "+shellword.Quote(w.Name)+" --image=IMAGE -- "+shellword.Join(w.Command)+"'")
	case len(w.Images) == 0:
		schedule := ""
		if c.Flags().Lookup("schedule") != nil && w.Schedule == "" {
			schedule = " --schedule='0 3 * * *'"
		}
		return problem.UsageError(errors.New("--image is required"), "'"+c.CommandPath()+" "+shellword.Quote(w.Name)+schedule+" --image=IMAGE'")
	case images > 0 && len(w.Images) > images:
		return grammar.Usage(c, errors.New("--image is given more than once"))
	case len(w.Images) > 1 && len(w.Command) > 0:
		return grammar.Usage(c, errors.New("a command cannot be used with several images"))
	}
	return nil
}

// create passes an object to apply as its input, or prints it if --dry-run is set.
func (f *applyFlags) create(c *cobra.Command, a *cli.App, object any, kind, name string) error {
	var err error
	if f.Generated, err = generatedSource(object); err != nil {
		return err
	}
	if f.dryRun == cli.DryClient {
		return printGenerated(a, c, &f.InputFlags, kind, name)
	}
	f.New, f.NewHint = true, "to change the pod, use '"+printingYAML(a)+" | podrun apply -'"
	return runApply(a, c, f, nil)
}

// printingYAML returns the command line of a generator that prints its object as YAML.
func printingYAML(a *cli.App) string {
	words := withoutDryRun(a.Line.Typed)
	dash := slices.Index(words, "--")
	if dash < 0 {
		dash = len(words)
	}
	return "podrun " + shellword.Join(slices.Insert(words, dash, "--dry-run=client", "-o", "yaml"))
}

// withoutDryRun returns a command line without --dry-run and -o.
func withoutDryRun(words []string) []string {
	var out []string
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "-o" || words[i] == "--output":
			i++
		case strings.HasPrefix(words[i], "--dry-run"), strings.HasPrefix(words[i], "-o"), strings.HasPrefix(words[i], "--output="):
		default:
			out = append(out, words[i])
		}
	}
	return out
}

// printGenerated validates the generated object and prints it unchanged.
func printGenerated(a *cli.App, c *cobra.Command, f *cli.InputFlags, kind, name string) error {
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	r := &cli.Renderer{W: a.Streams.Err, Quiet: true}
	if a.Output == "" {
		r.Quiet = false
	}
	warn := exceptCronJobs(r.Warn)
	if _, err := f.Load(c.Context(), a, c, nil, warn); err != nil {
		return err
	}
	switch a.Output {
	case "json", "yaml":
		return view.PrintData(a.Raw.Out, a.Output, json.RawMessage(f.Generated.Data))
	case "name":
		_, err := fmt.Fprintf(a.Streams.Out, "%s/%s\n", kind, name)
		return err
	}
	_, err := fmt.Fprintf(a.Streams.Out, "%s/%s is valid (client dry run: this host was not checked)\n", kind, name)
	return err
}

func newCreateDeployment(a *cli.App) *cobra.Command {
	w := &workload{}
	c := &cobra.Command{
		Use:     "deployment NAME --image=IMAGE [-- COMMAND...]",
		Aliases: []string{"deploy"},
		Short:   "Create a Deployment",
		Example: `  podrun create deployment web --image=nginx:1.27 --port=80`,
		Args:    grammar.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			if err := w.check(c, given, 0); err != nil {
				return err
			}
			return w.create(c, a, w.Deployment(), "deployment.apps", w.Name)
		},
	}
	w.add(c, a)
	c.Flags().Int32VarP(&w.Replicas, "replicas", "r", 1, "replicas in the manifest; podrun runs one pod unless the setting 'replicas: honour' is set")
	c.Flags().Int32Var(&w.Port, "port", 0, "port of the container")
	return c
}

func newCreateJob(a *cli.App) *cobra.Command {
	w, from := &workload{}, ""
	c := &cobra.Command{
		Use:   "job NAME --image=IMAGE [-- COMMAND...] | job NAME --from=cronjob/NAME",
		Short: "Create a Job",
		Long: `Create a Job, and return when its pod has started. 'podrun run IMAGE COMMAND' also
waits until the pod ends, and prints its logs.

With --from, create a Job from the template of a CronJob that 'podrun serve' runs.
podrun serve also runs the Job; 'podrun wait --for=condition=complete job/NAME' waits
until the Job completes.`,
		Example: `  podrun create job backup --image=busybox:1.36 -- tar -cf /backup/data.tar /data
  podrun create job backup-now --from=cronjob/backup`,
		Args: grammar.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			if from != "" {
				return createJobFrom(a, c, w, given, from)
			}
			if err := w.check(c, given, 1); err != nil {
				return err
			}
			return w.create(c, a, w.Job(), "job.batch", w.Name)
		},
	}
	w.add(c, a)
	c.Flags().StringVar(&from, "from", "", "create the Job from the template of this `cronjob/NAME`")
	return c
}

// createJobFrom creates a Job from a CronJob.
func createJobFrom(a *cli.App, c *cobra.Command, w *workload, given []string, from string) error {
	kind, cronJob, _ := strings.Cut(from, "/")
	switch {
	case len(given) != 1 || len(w.Images) > 0:
		return grammar.Usage(c, errors.New("--from cannot be used with a command or --image"))
	case cli.KindOf(kind) != "CronJob" || cronJob == "":
		return problem.UsageError(fmt.Errorf("--from=%s is not cronjob/NAME", from), "run 'podrun get cronjobs' to list the CronJobs")
	case w.dryRun != cli.DryNone && w.dryRun != "false":
		return grammar.Usage(c, errors.New("--from cannot be used with --dry-run"))
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	r := a.Renderer()
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	job, err := run.CreateJob(c.Context(), node, a.NamespaceOrDefault("default"), cronJob, given[0])
	if err != nil {
		return err
	}
	if !node.Supervised() {
		r.Warn(problem.List{{Object: "job " + job.Name, Warning: true, Message: "podrun serve is not running: the Job runs when podrun serve starts"}})
	}
	switch a.Output {
	case "json", "yaml":
		return view.PrintData(a.Raw.Out, a.Output, job)
	case "name":
		fmt.Fprintln(a.Streams.Out, "job.batch/"+job.Name)
	default:
		fmt.Fprintln(a.Streams.Out, "job.batch/"+job.Name+" created")
	}
	return nil
}

func newCreateCronJob(a *cli.App) *cobra.Command {
	w := &workload{}
	restart := ""
	c := &cobra.Command{
		Use:     "cronjob NAME --image=IMAGE --schedule=SCHEDULE [-- COMMAND...]",
		Aliases: []string{"cj"},
		Short:   "Create a CronJob",
		Example: `  podrun create cronjob backup --image=busybox:1.36 --schedule='0 3 * * *' --dry-run=client -o yaml -- date`,
		Args:    grammar.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			if err := w.check(c, given, 1); err != nil {
				return err
			}
			if w.Schedule == "" {
				return problem.UsageError(errors.New("--schedule is required"), "write --schedule='0 3 * * *' for every day at 3:00")
			}
			var err error
			if w.WorkloadFlags.Restart, err = restartPolicy(restart); err != nil {
				return grammar.Usage(c, err)
			}
			return w.create(c, a, w.CronJob(), "cronjob.batch", w.Name)
		},
	}
	w.add(c, a)
	c.Flags().StringVar(&w.Schedule, "schedule", "", "`schedule` in the format of cron")
	c.Flags().StringVar(&restart, "restart", "", "restartPolicy: OnFailure (default) or Never")
	return c
}

// dataFlags are kubectl's flags for the content of a ConfigMap or Secret.
type dataFlags struct {
	applyFlags
	literals, files, envFiles []string
}

func (f *dataFlags) add(c *cobra.Command, a *cli.App) {
	f.addGenerator(c, a)
	f.AllowEmpty = true
	set := c.Flags()
	set.StringArrayVar(&f.literals, "from-literal", nil, "`KEY=VALUE`; repeatable")
	set.StringArrayVar(&f.files, "from-file", nil, "`[KEY=]FILE`, or a directory: each file in it is an entry; repeatable")
	set.StringArrayVar(&f.envFiles, "from-env-file", nil, "`file` with lines KEY=VALUE; repeatable")
}

// maxData is the maximum size of a ConfigMap or Secret in bytes
// (corev1.MaxSecretSize).
const maxData = corev1.MaxSecretSize

// maxDataFiles is the maximum number of files in a directory of --from-file.
const maxDataFiles = 1000

// read returns the content that the flags specify.
func (f *dataFlags) read(ctx context.Context, c *cobra.Command) (*generate.Data, error) {
	d := generate.NewData()
	var errs []error
	for _, pair := range f.literals {
		errs = append(errs, d.AddPair("from-literal", pair))
	}
	for _, arg := range f.files {
		errs = append(errs, addFiles(ctx, d, arg))
	}
	for _, name := range f.envFiles {
		data, err := hostfile.ReadInput(ctx, name, maxData)
		errs = append(errs, err)
		for _, line := range generate.Lines(string(data)) {
			if !strings.Contains(line, "=") { // take the value from podrun's environment, as kubectl does
				line += "=" + os.Getenv(line)
			}
			errs = append(errs, d.AddPair("from-env-file", line))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, grammar.Usage(c, err)
	}
	return d, nil
}

// addFiles adds [KEY=]FILE, or the files of a directory.
func addFiles(ctx context.Context, d *generate.Data, arg string) error {
	key, path, hasKey := strings.Cut(arg, "=")
	if !hasKey {
		key, path = filepath.Base(arg), arg
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("--from-file: %w", err)
	}
	if !info.IsDir() {
		return addFile(ctx, d, key, path)
	}
	if hasKey {
		return fmt.Errorf("--from-file=%s: omit %s=: podrun uses the names of the files in the directory as keys", arg, key)
	}
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--from-file: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxDataFiles + 1)
	if err != nil || len(names) > maxDataFiles {
		return fmt.Errorf("--from-file=%s: the directory is empty or has more than %d entries", arg, maxDataFiles)
	}
	slices.Sort(names)
	for _, name := range names {
		file := filepath.Join(path, name)
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue // as in kubectl: directories, dangling symlinks, devices
		}
		if err := addFile(ctx, d, name, file); err != nil {
			return err
		}
	}
	return nil
}

func addFile(ctx context.Context, d *generate.Data, key, path string) error {
	data, err := hostfile.ReadInput(ctx, path, maxData)
	if err == nil {
		err = d.Add(key, data)
	}
	if err != nil {
		return fmt.Errorf("--from-file: %w", err)
	}
	return nil
}

// createData prints a ConfigMap or Secret. Without a pod that refers to it, podrun does not
// store one.
func (f *applyFlags) createData(c *cobra.Command, a *cli.App, object any, kind, name string) error {
	if f.dryRun == cli.DryNone || f.dryRun == "false" {
		first := "add '--dry-run=client -o yaml > " + name + ".yaml'"
		if kind == "configmap" { // a hint must not repeat the values of a Secret
			first = "run '" + printingYAML(a) + " > " + name + ".yaml'"
		}
		return &problem.Error{
			Kind:   problem.Usage,
			Object: kind + "/" + name,
			Err:    errors.New("podrun stores it only with a pod that refers to it, and the input has no pod"),
			Hint:   fmt.Sprintf("%s, then run 'podrun apply POD.yaml --%s %s.yaml'", first, kind, name),
		}
	}
	f.dryRun = cli.DryClient
	return f.create(c, a, object, kind, name)
}

func newCreateConfigMap(a *cli.App) *cobra.Command {
	f := &dataFlags{}
	c := &cobra.Command{
		Use:     "configmap NAME [--from-literal=KEY=VALUE] [--from-file=FILE] --dry-run=client -o yaml",
		Aliases: []string{"cm"},
		Short:   "Print a ConfigMap",
		Example: `  podrun create configmap app --from-literal=level=debug --from-file=app.conf --dry-run=client -o yaml`,
		Args:    grammar.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			d, err := f.read(c.Context(), c)
			if err != nil {
				return err
			}
			return f.createData(c, a, d.ConfigMap(given[0]), "configmap", given[0])
		},
	}
	f.add(c, a)
	return c
}

func newCreateSecret(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Print a Secret",
		Args:  grammar.Args(grammar.KnownCommand),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newSecretGeneric(a), newSecretRegistry(a), newSecretTLS(a))
	return c
}

func newSecretGeneric(a *cli.App) *cobra.Command {
	f := &dataFlags{}
	kind := ""
	c := &cobra.Command{
		Use:     "generic NAME [--from-literal=KEY=VALUE] [--from-file=FILE] --dry-run=client -o yaml",
		Short:   "Print a Secret with any content",
		Example: `  podrun create secret generic db --from-file=password.txt --dry-run=client -o yaml`,
		Args:    grammar.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			d, err := f.read(c.Context(), c)
			if err != nil {
				return err
			}
			return f.createData(c, a, d.Secret(given[0], corev1.SecretType(kind)), "secret", given[0])
		},
	}
	f.add(c, a)
	c.Flags().StringVar(&kind, "type", "", "type of the Secret (default Opaque)")
	return c
}

func newSecretRegistry(a *cli.App) *cobra.Command {
	f := &dataFlags{}
	var r generate.Registry
	c := &cobra.Command{
		Use:   "docker-registry NAME --docker-username=USER --docker-password=PASSWORD --dry-run=client -o yaml",
		Short: "Print a Secret with the credentials of a registry, for imagePullSecrets",
		Args:  grammar.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			s, err := r.Secret(given[0])
			if err != nil {
				return grammar.Usage(c, err)
			}
			return f.createData(c, a, s, "secret", given[0])
		},
	}
	f.addGenerator(c, a)
	f.AllowEmpty = true
	registryFlags(c.Flags(), &r)
	return c
}

func registryFlags(set *pflag.FlagSet, r *generate.Registry) {
	set.StringVar(&r.Server, "docker-server", "", "host of the registry (default Docker Hub)")
	set.StringVar(&r.Username, "docker-username", "", "user name")
	set.StringVar(&r.Password, "docker-password", "", "password, which other users of this host can see while podrun runs")
	set.StringVar(&r.Email, "docker-email", "", "email address")
}

func newSecretTLS(a *cli.App) *cobra.Command {
	f := &dataFlags{}
	cert, key := "", ""
	c := &cobra.Command{
		Use:   "tls NAME --cert=FILE --key=FILE --dry-run=client -o yaml",
		Short: "Print a Secret with a certificate and its key",
		Args:  grammar.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			certData, err := hostfile.ReadInput(c.Context(), cert, maxData)
			keyData, keyErr := hostfile.ReadInput(c.Context(), key, maxData)
			if err := errors.Join(err, keyErr); err != nil {
				return grammar.Usage(c, err)
			}
			s, err := generate.TLSSecret(given[0], certData, keyData)
			if err != nil {
				return grammar.Usage(c, err)
			}
			return f.createData(c, a, s, "secret", given[0])
		},
	}
	f.addGenerator(c, a)
	f.AllowEmpty = true
	c.Flags().StringVar(&cert, "cert", "", "PEM `file` with the certificate")
	c.Flags().StringVar(&key, "key", "", "PEM `file` with the key")
	return c
}
