package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
)

// imageFlags are the flags of run that define a pod, like the flags of docker run and kubectl
// run.
type imageFlags struct {
	generate.PodFlags
	restart string // --restart, as a value of Kubernetes or of docker
	pull    string // --pull, as a value of Kubernetes or of docker
	port    []string
	detach  bool
	attach  bool
}

// definitionFlags are the flags that only define a pod. It maps each to a hint on what to do
// instead if a manifest defines the pod.
var definitionFlags = map[string]string{
	"image":       "use --set-image: 'CMD --set-image=CONTAINER=VALUE'",
	"name":        "set metadata.name in the manifest, or generateName for a new name at each run",
	"publish":     "set hostPort in the ports of the container in the manifest",
	"port":        "set containerPort in the ports of the container in the manifest",
	"volume":      "set volumes and volumeMounts in the manifest; --relative-host-paths allows hostPath volumes with paths relative to the manifest's directory",
	"entrypoint":  "set the container's command in the manifest",
	"command":     "set the container's command in the manifest",
	"label":       "set metadata.labels in the manifest",
	"labels":      "set metadata.labels in the manifest",
	"annotations": "set metadata.annotations in the manifest",
	"network":     "set hostNetwork: true in the manifest for the host's network",
	"net":         "set hostNetwork: true in the manifest for the host's network",
	"hostname":    "set spec.hostname in the manifest",
	"user":        "set securityContext.runAsUser in the manifest",
	"workdir":     "set workingDir of the container in the manifest",
	"privileged":  "set securityContext.privileged: true of the container in the manifest",
	"read-only":   "set securityContext.readOnlyRootFilesystem: true of the container in the manifest",
	"init":        "set shareProcessNamespace: true in the manifest: the sandbox's process 1 then reaps zombies",
	"cap-add":     "set securityContext.capabilities.add of the container in the manifest",
	"cap-drop":    "set securityContext.capabilities.drop of the container in the manifest",
	"memory":      "set resources.limits.memory of the container in the manifest",
	"cpus":        "set resources.limits.cpu of the container in the manifest",
	"pull":        "set imagePullPolicy of the container in the manifest",
}

func (f *imageFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.Image, "image", "", "`image` of the pod NAME, as in 'kubectl run NAME --image=IMAGE -- ARGS'; run then returns when the pod has started, unless --attach, -i or -t is set")
	set.StringVar(&f.Name, "name", "", "name of the pod (default: the name of the image, with a random suffix if podrun removes the pod at its end or the name is in use)")
	set.StringArrayVarP(&f.Ports, "publish", "p", nil, "`port` of the container, with the port of the host: [IP:]HOSTPORT:PORT[/PROTOCOL]; both ports may be ranges such as 8000-8002; repeatable")
	set.StringArrayVar(&f.port, "port", nil, "`port` of the container; repeatable")
	set.StringArrayVarP(&f.Volumes, "volume", "v", nil, "`volume`: SOURCE:PATH[:ro], where SOURCE is a path of this host or the name of a PersistentVolumeClaim; repeatable")
	set.StringVar(&f.Entrypoint, "entrypoint", "", "`command` in place of the image's entrypoint")
	set.BoolVar(&f.AsCommand, "command", false, "use all arguments after the image in place of its entrypoint")
	set.StringArrayVarP(&f.Labels, "labels", "l", nil, "labels of the pod (a=b,c=d); repeatable (default run=NAME)")
	set.StringArrayVar(&f.Notes, "annotations", nil, "annotations of the pod (a=b,c=d); repeatable")
	set.StringVar(&f.CPUs, "cpus", "", "limit of CPUs (1.5)")
	set.StringVarP(&f.Memory, "memory", "m", "", "limit of memory; k, m and g are powers of 1,024, as in docker (64m)")
	set.StringVar(&f.restart, "restart", "", "restartPolicy: Never, OnFailure or Always, or docker's no, on-failure, always or unless-stopped")
	set.StringVar(&f.pull, "pull", "", "when to pull the image: always, missing or never")
	set.StringVarP(&f.WorkDir, "workdir", "w", "", "working directory in the container")
	set.StringVarP(&f.User, "user", "u", "", "user of the container: UID[:GID]")
	set.StringVar(&f.Hostname, "hostname", "", "host name of the pod; before the image, -h NAME has the same meaning")
	set.BoolVar(&f.Init, "init", false, "share the process namespace of the pod, so that the sandbox's process 1 reaps zombies and forwards signals")
	set.StringVar(&f.Network, "network", "", "network of the pod: host for the network of this host")
	set.StringArrayVar(&f.CapAdd, "cap-add", nil, "`capability` to add; repeatable")
	set.StringArrayVar(&f.CapDrop, "cap-drop", nil, "`capability` to drop; repeatable")
	set.BoolVar(&f.Privileged, "privileged", false, "run the container privileged")
	set.BoolVar(&f.ReadOnly, "read-only", false, "mount the container's root file system read-only")
	set.BoolVarP(&f.detach, "detach", "d", false, "return when the pod has started, as 'podrun apply' does")
	set.BoolVar(&f.attach, "attach", false, "with --image, wait until the pod ends and print its logs")
	// Flags that docker and kubectl name differently.
	set.StringVar(&f.Network, "net", "", "")
	set.StringArrayVar(&f.Labels, "label", nil, "")
	set.StringVar(&f.pull, "image-pull-policy", "", "")
	for _, name := range []string{"net", "label", "image-pull-policy"} {
		set.Lookup(name).Hidden = true
	}
}

// isImageRun reports whether the command line defines a pod by an image.
func (f *runFlags) isImageRun(named []string) bool {
	return f.Image != "" || !f.HasFiles() && len(named) > 0 && !grammar.NamesManifest(named[0])
}

// checkDefinition rejects flags that define a pod if manifests define the pods.
func (f *runFlags) checkDefinition(c *cobra.Command, a *cli.App) error {
	var err error
	c.Flags().Visit(func(flag *pflag.Flag) {
		hint, ok := definitionFlags[flag.Name]
		if flag.Name == "volume" {
			hint = cmp.Or(volumeFields(f.Volumes), hint)
		}
		if ok && err == nil {
			err = problem.UsageError(fmt.Errorf("--%s is for images, but a manifest defines this pod", flag.Name),
				a.Line.FlagHint(c, hint, flag))
		}
	})
	return err
}

// volumeFields returns a hint with the manifest fields that correspond to the volumes of --volume, or "" if the
// volumes are invalid.
func volumeFields(volumes []string) string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	pod, err := (&generate.PodFlags{Name: "volumes", Image: "volumes", Volumes: volumes, CurrentDir: dir}).Pod()
	if err != nil {
		return ""
	}
	sources, err := json.Marshal(pod.Spec.Volumes)
	if err != nil {
		return ""
	}
	mounts, err := json.Marshal(pod.Spec.Containers[0].VolumeMounts)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("add 'volumes: %s' to spec in the manifest, and 'volumeMounts: %s' to the container", sources, mounts)
}

// define creates the pod of an image, and makes it the input of the command. If --image is set,
// the first argument is the name of the pod, as in kubectl.
func (f *runFlags) define(c *cobra.Command, a *cli.App, named []string) error {
	p := &f.PodFlags
	kubectl := p.Image != ""
	switch {
	case kubectl && f.HasFiles():
		return problem.UsageError(errors.New("--image cannot be used with -f or -k"), "use --set-image CONTAINER=IMAGE to replace an image of a manifest")
	case kubectl && len(named) > 0 && c.ArgsLenAtDash() != 0:
		if grammar.LooksLikeFile(named[0]) || namesManifestFile(named[0]) {
			return problem.UsageError(errors.New("--image defines a pod, but "+shellword.Quote(named[0])+" is a manifest"),
				"use --set-image: 'podrun run "+shellword.Quote(named[0])+" --set-image=CONTAINER="+shellword.Quote(p.Image)+"'")
		}
		if p.Name != "" && p.Name != named[0] {
			return grammar.Usage(c, fmt.Errorf("--name=%s and the name %s differ", p.Name, named[0]))
		}
		p.Name, p.Args = named[0], named[1:]
	case kubectl:
		p.Args = named
	default:
		p.Image, p.Args = named[0], named[1:]
	}
	if kubectl && !f.attach && !f.stdin && !f.tty && !c.Flags().Changed("rm") {
		f.detach = true
	}
	if kubectl && !c.Flags().Changed("rm") {
		f.remove = false
	}
	var err error
	if p.Restart, err = restartPolicy(f.restart); err != nil {
		return grammar.Usage(c, err)
	}
	switch {
	case p.Restart == "" && kubectl && f.detach:
		p.Restart = corev1.RestartPolicyAlways
	case p.Restart == "":
		p.Restart = corev1.RestartPolicyNever
	}
	if p.Pull, err = pullPolicy(f.pull); err != nil {
		return grammar.Usage(c, err)
	}
	if a.Line.DashAdded && p.Entrypoint == "" {
		f.Notes = append(f.Notes, flagOfCommand(p.Image, p.Args)...)
	}
	p.Env, f.Env = f.Env, nil
	p.Unique = !f.detach && f.remove && f.dryRun == cli.DryNone
	p.Stdin, p.TTY = f.stdin, f.tty
	if p.CurrentDir, err = os.Getwd(); err != nil {
		return &problem.Error{Kind: problem.Usage, Object: "--volume", Err: err}
	}
	for _, text := range p.Ports {
		if !strings.Contains(text, ":") {
			return problem.UsageError(fmt.Errorf("--publish=%s names no port of this host", text),
				fmt.Sprintf("use -p %s:%s, or --port=%s for a port that is not published", strings.Split(text, "/")[0], text, strings.Split(text, "/")[0]))
		}
	}
	p.Ports = append(p.Ports, f.port...)
	pod, err := p.Pod()
	if err == nil && f.detach && p.Name == "" && !f.Replace && f.dryRun == cli.DryNone && hasPod(a, pod.Name) {
		p.Unique = true
		pod, err = p.Pod()
	}
	if err != nil {
		return grammar.Usage(c, err)
	}
	f.Generated, err = generatedSource(pod)
	return err
}

// hasPod reports whether a pod of this name exists in the command's namespace, as far as podrun's files
// show.
func hasPod(a *cli.App, name string) bool {
	settings, _, err := a.Settings.Settings()
	if err != nil {
		return false // the command reports the error
	}
	pods := cli.StoredPods(&run.Node{Settings: settings}, a.NamespaceOrDefault("default"))
	return slices.ContainsFunc(pods, func(p identity.Pod) bool { return p.Name == name })
}

// flagOfCommand returns a warning if the first argument after an image is probably a flag for podrun. As in
// docker, the argument belongs to the container. Only flags whose values fit docker's flags count, because
// the entrypoint of an image may have flags of the same names.
func flagOfCommand(image string, args []string) problem.List {
	if len(args) == 0 {
		return nil
	}
	flag, value, attached := strings.Cut(args[0], "=")
	given := args[:1]
	if !attached && len(args) > 1 {
		value, given = args[1], args[:2]
	}
	fits := false
	switch flag {
	case "-e", "--env":
		name, _, ok := strings.Cut(value, "=")
		fits = ok && name != "" && !strings.ContainsAny(name, "-./:")
	case "-v", "--volume":
		source, path, ok := strings.Cut(value, ":")
		fits = ok && source != "" && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//")
	case "-p", "--publish":
		fits = strings.Contains(value, ":") && strings.Trim(value, "0123456789.:") == ""
	case "-it", "-ti", "--rm":
		fits, given = true, args[:1]
	}
	if !fits {
		return nil
	}
	return problem.List{{
		Object:  shellword.Join(given),
		Warning: true,
		Message: "follows the image, so podrun passes it to the container, as docker does",
		Hint:    "to give it to podrun, write it before the image: 'podrun run " + shellword.Join(given) + " " + shellword.Quote(image) + "'",
	}}
}

// namesManifestFile reports whether a word is the path of a file.
func namesManifestFile(word string) bool {
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// generatedSource returns an object as the input of a command.
func generatedSource(object any) (*input.Source, error) {
	data, err := generate.Manifest(object)
	if err != nil {
		return nil, fmt.Errorf("generate the manifest: %w", err)
	}
	return &input.Source{Name: "generated manifest", Data: data}, nil
}

// restartPolicy converts a restart policy of docker or Kubernetes.
func restartPolicy(word string) (corev1.RestartPolicy, error) {
	policy, limit, limited := strings.Cut(strings.ToLower(word), ":")
	if limited {
		return "", fmt.Errorf("--restart=%s: Kubernetes cannot limit the number of restarts to %s: use --restart=OnFailure, and --timeout to limit the time", word, limit)
	}
	switch policy {
	case "":
		return "", nil
	case "no", "never":
		return corev1.RestartPolicyNever, nil
	case "on-failure", "onfailure":
		return corev1.RestartPolicyOnFailure, nil
	case "always", "unless-stopped":
		return corev1.RestartPolicyAlways, nil
	}
	return "", fmt.Errorf("--restart=%s is not Never, OnFailure or Always", word)
}

// pullPolicy converts a pull policy of docker or Kubernetes.
func pullPolicy(word string) (corev1.PullPolicy, error) {
	switch strings.ToLower(word) {
	case "":
		return "", nil
	case "always":
		return corev1.PullAlways, nil
	case "missing", "ifnotpresent":
		return corev1.PullIfNotPresent, nil
	case "never":
		return corev1.PullNever, nil
	}
	return "", fmt.Errorf("--pull=%s is not always, missing or never", word)
}

// maxEnvFile is the maximum size of an env file in bytes.
const maxEnvFile = 1 << 20

// readEnv returns the variables of --env-file and --env; those of --env take precedence.
func readEnv(ctx context.Context, c *cobra.Command, files, pairs []string) ([]corev1.EnvVar, error) {
	var lines []string
	for _, name := range files {
		data, err := hostfile.ReadInput(ctx, name, maxEnvFile)
		if err != nil {
			return nil, &problem.Error{Kind: problem.Manifest, Object: "--env-file", Err: err}
		}
		lines = append(lines, generate.Lines(string(data))...)
	}
	env, err := generate.Env(append(lines, pairs...), os.LookupEnv)
	if err != nil {
		return nil, grammar.Usage(c, err)
	}
	var out []corev1.EnvVar
	// If several variables have the same name, the last one takes precedence.
	for i, v := range env {
		if !slices.ContainsFunc(env[i+1:], func(later corev1.EnvVar) bool { return later.Name == v.Name }) {
			out = append(out, v)
		}
	}
	return out, nil
}

// parseImages converts the values of --set-image.
func parseImages(c *cobra.Command, pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range pairs {
		name, image, ok := strings.Cut(pair, "=")
		if !ok || name == "" || image == "" {
			return nil, problem.UsageError(fmt.Errorf("--set-image=%s is not of the form CONTAINER=IMAGE", pair), "'*=IMAGE' sets the image of all containers")
		}
		out[name] = image
	}
	return out, nil
}

// podName returns the name of the pod that the flags define.
func (f *runFlags) podName() string {
	var pod corev1.Pod
	_ = json.Unmarshal(f.Generated.Data, &pod) // define marshaled it
	return pod.Name
}
