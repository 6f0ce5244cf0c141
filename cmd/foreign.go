package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
)

// sameAs maps the first words of commands of kubectl, docker, podman and crictl to the
// equivalent podrun commands.
var sameAs = map[string][]string{
	"create":     {"apply"},
	"ps":         {"get"},
	"ls":         {"get"},
	"list":       {"get"},
	"pods":       {"get"},
	"rm":         {"delete"},
	"kill":       {"stop", "--grace-period=0"},
	"inspect":    {"get", "-o", "json"},
	"images":     {"image", "ls"},
	"pull":       {"image", "pull"},
	"load":       {"image", "load"},
	"rmi":        {"image", "rm"},
	"play kube":  {"apply"},
	"kube play":  {"apply"},
	"play":       {"apply"},
	"kube down":  {"delete", "-f"},
	"info":       {"doctor"},
	"get events": {"events"},
	"get event":  {"events"},
	"get ev":     {"events"},
	"statsp":     {"top"},
}

// Texts that several commands share.
const (
	useManifest = "change the manifest and run 'podrun apply FILE'"
	noCluster   = "podrun has no API server; 'podrun doctor' examines this host"
	useKustom   = "use 'podrun apply -k DIR', or 'podrun apply -k DIR --dry-run=client -o yaml' for its pods"
	noBuild     = "podrun does not build or publish images"
)

// useInstead maps commands that podrun does not have to hints on what to use. Entries
// with two words take precedence.
var useInstead = map[string]string{
	"port":          "use 'podrun port-forward NAME PORT', connect to the pod's IP ('podrun get -o wide'), or give a port of the container a hostPort",
	"expose":        "use 'podrun port-forward NAME PORT', connect to the pod's IP ('podrun get -o wide'), or give a port of the container a hostPort",
	"proxy":         "use 'podrun port-forward NAME PORT', connect to the pod's IP ('podrun get -o wide'), or give a port of the container a hostPort",
	"edit":          useManifest,
	"patch":         useManifest,
	"set":           useManifest,
	"label":         useManifest,
	"annotate":      useManifest,
	"rename":        useManifest,
	"update":        useManifest,
	"replace":       "use 'podrun apply --force FILE'",
	"scale":         "podrun runs one pod for a workload; give pods different names to run several",
	"autoscale":     "podrun runs one pod for a workload; give pods different names to run several",
	"rollout":       "use 'podrun restart NAME', or change the manifest and run 'podrun apply FILE'",
	"kustomize":     useKustom,
	"convert":       "podrun reads Pods of v1, and workloads of apps/v1 and batch/v1",
	"config":        noCluster,
	"cluster-info":  noCluster,
	"api-resources": noCluster,
	"api-versions":  noCluster,
	"auth":          noCluster,
	"certificate":   noCluster,
	"token":         noCluster,
	"cordon":        "podrun does not schedule pods: do not start pods on this host",
	"uncordon":      "podrun does not schedule pods: start them with 'podrun apply'",
	"taint":         "podrun does not schedule pods: do not start pods on this host",
	"drain":         "use 'podrun stop --all' or 'podrun delete --all'",
	"plugin":        "podrun has no plugins",

	"create deployment": "run 'kubectl create deployment … --dry-run=client -o yaml | podrun apply -'",
	"create job":        "run 'kubectl create job … --dry-run=client -o yaml | podrun apply -'",
	"create cronjob":    "run 'kubectl create cronjob … --dry-run=client -o yaml | podrun apply -'",
	"create configmap":  "write a file with the ConfigMap and run 'podrun apply pod.yaml --configmap FILE'",
	"create secret":     "write a file with the Secret and run 'podrun apply pod.yaml --secret FILE'",
	"create namespace":  "use -n; a namespace exists as soon as it has a pod",
	"create ns":         "use -n; a namespace exists as soon as it has a pod",
	"create service":    "use 'podrun port-forward NAME PORT', connect to the pod's IP ('podrun get -o wide'), or give a port of the container a hostPort",

	"up":            "use 'podrun apply FILE'",
	"down":          "use 'podrun delete -f FILE'",
	"compose":       "podrun runs Kubernetes manifests: 'kompose convert' creates them from a Compose file",
	"build":         noBuild,
	"push":          noBuild,
	"commit":        noBuild,
	"tag":           noBuild,
	"history":       noBuild,
	"search":        noBuild,
	"save":          "use 'crictl' or 'ctr image export' to export an image",
	"export":        "use 'podrun get NAME -o yaml' for the manifest of a pod",
	"generate":      "use 'podrun get NAME -o yaml' for the manifest of a pod",
	"import":        "use 'podrun image load FILE'",
	"login":         "podrun reads the credentials of docker and podman: use 'docker login', 'podman login' or --registry-auth",
	"logout":        "podrun reads the credentials of docker and podman: use 'docker logout' or 'podman logout'",
	"pause":         "use 'podrun stop NAME' and 'podrun start NAME'",
	"unpause":       "use 'podrun stop NAME' and 'podrun start NAME'",
	"network":       "the CNI configuration of the container runtime defines the network; 'podrun doctor' checks it",
	"volume":        "the manifest defines the volumes; 'podrun describe NAME' shows them",
	"container":     "'podrun get' lists pods, 'podrun describe NAME' shows their containers",
	"pod":           "all podrun commands manage pods: use 'podrun get', 'podrun delete NAME'",
	"secret":        "write a file with the Secret and run 'podrun apply pod.yaml --secret FILE'",
	"kube":          "use 'podrun apply FILE' and 'podrun delete -f FILE'",
	"system":        "use 'podrun doctor', or 'podrun image prune --all' to free disk space",
	"prune":         "use 'podrun image prune --all' or 'podrun delete --all'",
	"clean":         "use 'podrun image prune --all' or 'podrun delete --all'",
	"runp":          "use 'podrun apply FILE'",
	"stopp":         "use 'podrun stop NAME'",
	"rmp":           "use 'podrun delete NAME'",
	"inspectp":      "use 'podrun get NAME -o json'",
	"shell":         "use 'podrun exec NAME -i -- sh'",
	"ssh":           "use 'podrun exec NAME -i -- sh'",
	"status":        "use 'podrun get', or 'podrun service status' for the service",
	"watch":         "use 'podrun get --watch'",
	"validate":      "use 'podrun apply --dry-run=client FILE' or 'podrun plan FILE'",
	"lint":          "use 'podrun apply --dry-run=client FILE' or 'podrun plan FILE'",
	"check":         "use 'podrun doctor' or 'podrun plan FILE'",
	"install":       "use 'podrun service install'",
	"uninstall":     "use 'podrun service uninstall'",
	"enable":        "use 'podrun service install --now'",
	"reload":        "use 'podrun restart NAME', or 'systemctl reload podrun' for the service",
	"pods ls":       "use 'podrun get'",
	"image build":   noBuild,
	"image push":    noBuild,
	"image tag":     noBuild,
	"image inspect": "use 'crictl inspecti IMAGE'",
	"image save":    "use 'crictl' or 'ctr image export' to export an image",
	"image import":  "use 'podrun image load FILE'",
}

// translate converts a command line of a related tool to podrun's, or returns an error
// with a hint. Commands of podrun are not changed.
func translate(root *cobra.Command, args []string) ([]string, error) {
	at := wordsAt(root.PersistentFlags(), args)
	if len(at) == 0 {
		return args, nil
	}
	first := args[at[0]]
	second := ""
	if len(at) > 1 && at[1] == at[0]+1 {
		second = args[at[1]]
	}
	for _, words := range []string{first + " " + second, first} {
		if hint, ok := useInstead[words]; ok && !isCommandName(root, words) {
			return nil, &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("podrun has no command %q", words), Hint: hint}
		}
		same, ok := sameAs[words]
		if !ok || isCommandName(root, words) {
			continue
		}
		out := append(slices.Clone(args[:at[0]]), same...)
		rest := slices.Clone(args[at[0]+1:])
		if words != first {
			rest = slices.Delete(rest, at[1]-at[0]-1, at[1]-at[0])
		}
		if first == "rm" {
			for i := range rest {
				if rest[i] == "-f" { // of docker rm: --force
					rest[i] = "--force"
				}
			}
		}
		return append(out, rest...), nil
	}
	if named(root, first) == nil && !slices.Contains(cobraCommands, first) {
		return nil, usage(root, knownCommand(root, []string{first})) // otherwise cobra would report unknown flags first
	}
	return args, nil
}

// cobraCommands are the commands that cobra adds when it executes one.
var cobraCommands = []string{"help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// isCommandName reports whether podrun has a command of this name; a help topic is none.
func isCommandName(root *cobra.Command, name string) bool {
	c := named(root, name)
	return c != nil && !isTopic(c)
}

// named returns the command or help topic with this name, or nil.
func named(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// wordsAt returns the indexes of the first two arguments that are neither flags nor
// values of global flags. It returns nil if an unknown flag precedes the first, because
// that flag may take a value.
func wordsAt(global *pflag.FlagSet, args []string) []int {
	var out []int
	for i := 0; i < len(args) && len(out) < 2 && args[i] != "--"; i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			out = append(out, i)
			continue
		}
		var flag *pflag.Flag
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			if strings.Contains(name, "=") {
				continue
			}
			flag = global.Lookup(name)
		} else if len(arg) == 2 {
			flag = global.ShorthandLookup(arg[1:])
		}
		switch {
		case flag == nil && len(out) == 0:
			return nil
		case flag != nil && flag.NoOptDefVal == "":
			i++ // its value
		}
	}
	return out
}

// closestName returns the name that was probably mistyped, or "" unless there is exactly one
// candidate. Both words have at least four letters and the same first letter, and differ
// by one letter inserted, deleted or replaced, or by two letters swapped.
func closestName(typed string, names []string) string {
	found := ""
	for _, name := range names {
		if len(typed) < 4 || len(name) < 4 || typed[0] != name[0] || !isOneEdit(typed, name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// isOneEdit reports whether one insertion, deletion, replacement or swap of adjacent
// letters converts a to b.
func isOneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(b) == len(a)+1:
		return a[i:] == b[i+1:]
	case len(b) != len(a) || a == b:
		return false
	case a[i+1:] == b[i+1:]:
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// knownCommand rejects an unknown word in the position of a command.
func knownCommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	err := fmt.Errorf("%q is not a command of %s", given[0], c.CommandPath())
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	if like := closestName(given[0], names); like != "" {
		err = fmt.Errorf("%w (did you mean %s?)", err, like)
	}
	return err
}
