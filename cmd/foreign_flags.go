package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
)

// inManifest is the hint for flags of docker run and kubectl run.
const inManifest = "podrun runs manifests: 'kubectl run NAME --image=IMAGE --dry-run=client -o yaml | podrun run -'"

// foreignFlags maps flags of related tools that podrun does not have to hints on what to
// use. Keys are a command and a flag, or a flag alone for all commands.
var foreignFlags = map[string]string{
	"context":               "podrun uses no cluster: omit the flag",
	"kubeconfig":            "podrun uses no cluster: omit the flag",
	"cluster":               "podrun uses no cluster: omit the flag",
	"user":                  "podrun uses no cluster: omit the flag",
	"server":                "podrun uses no cluster: omit the flag",
	"token":                 "podrun uses no cluster: omit the flag",
	"as":                    "podrun uses no cluster: omit the flag",
	"request-timeout":       "use --timeout, or --runtime-request-timeout for calls to the runtime",
	"R":                     "podrun reads a directory but not its subdirectories: name each one",
	"recursive":             "podrun reads a directory but not its subdirectories: name each one",
	"field-manager":         "podrun has no API server: omit the flag",
	"server-side":           "podrun has no API server: omit the flag",
	"force-conflicts":       "podrun has no API server: omit the flag",
	"overwrite":             "podrun has no API server: omit the flag",
	"record":                "podrun has no API server: omit the flag",
	"save-config":           "podrun has no API server: omit the flag",
	"cascade":               "podrun deletes everything that belongs to a pod: omit the flag",
	"field-selector":        "use -l for labels, or -o jsonpath='{.items[?(@.status.phase==\"Running\")].metadata.name}'",
	"chunk-size":            "omit the flag",
	"show-kind":             "podrun manages only pods: omit the flag",
	"show-managed-fields":   "podrun keeps no managed fields: omit the flag",
	"get all":               "podrun get also shows pods that have ended: omit the flag",
	"get a":                 "podrun get also shows pods that have ended: omit the flag",
	"get quiet":             "use -o name",
	"get q":                 "use -o name",
	"get format":            "use -o go-template=TEMPLATE or -o jsonpath=TEMPLATE",
	"get filter":            "use -l SELECTOR",
	"get f":                 "use 'podrun get NAME': get reads no manifests",
	"get filename":          "use 'podrun get NAME': get reads no manifests",
	"describe output":       "use 'podrun get NAME -o yaml'",
	"describe o":            "use 'podrun get NAME -o yaml'",
	"describe f":            "use 'podrun describe NAME': describe reads no manifests",
	"exec env":              "use 'podrun exec NAME -- env VARIABLE=VALUE COMMAND'",
	"exec e":                "use 'podrun exec NAME -- env VARIABLE=VALUE COMMAND'",
	"exec u":                "the manifest sets the container's user (securityContext.runAsUser)",
	"exec w":                "use 'podrun exec NAME -- sh -c \"cd DIR && COMMAND\"'",
	"exec d":                "use 'podrun exec NAME -- sh -c \"COMMAND &\"'",
	"logs t":                "use --timestamps",
	"logs until":            "use --since and --tail",
	"logs ignore-errors":    "omit the flag",
	"run image":             inManifest,
	"run d":                 "use 'podrun apply FILE', which does not wait until the pods end",
	"run detach":            "use 'podrun apply FILE', which does not wait until the pods end",
	"run restart":           "use --restart-policy",
	"run name":              inManifest,
	"run p":                 inManifest,
	"run publish":           inManifest,
	"run port":              inManifest,
	"run e":                 inManifest,
	"run env":               inManifest,
	"run volume":            inManifest,
	"run entrypoint":        inManifest,
	"run command":           inManifest,
	"run labels":            inManifest,
	"apply d":               "apply returns when the pods have started: omit the flag",
	"apply detach":          "apply returns when the pods have started: omit the flag",
	"apply replicas":        "podrun runs one pod for a workload; give pods different names to run several",
	"apply image":           inManifest,
	"apply start":           "omit the flag",
	"apply down":            "use 'podrun delete -f FILE'",
	"delete wait":           "delete returns when the pod is completely removed: omit the flag",
	"delete time":           "use --grace-period SECONDS",
	"delete t":              "use --grace-period SECONDS",
	"stop t":                "use --grace-period SECONDS",
	"stop time":             "use --grace-period SECONDS",
	"stop a":                "use --all",
	"stop signal":           "use lifecycle.stopSignal in the manifest",
	"stop s":                "use lifecycle.stopSignal in the manifest",
	"restart t":             "omit the flag: the manifest's terminationGracePeriodSeconds applies",
	"top no-stream":         "omit the flag; 'watch podrun top' repeats it",
	"top a":                 "use -A for the pods of all namespaces",
	"events sort-by":        "events are sorted by time: omit the flag",
	"events field-selector": "name the pod, or use --types=Warning",
	"events watch-only":     "use --watch",
	"explain api-version":   "podrun reads one version of each kind: omit the flag",
	"explain output":        "omit the flag",
	"explain o":             "omit the flag",
	"plan out":              "use 'podrun plan FILE -o yaml > FILE'",
	"doctor fix":            "doctor changes nothing; it prints the command that fixes each finding",
}

// flagError returns the usage error for an unknown flag, with a hint on what to use
// instead or the flag that was probably mistyped.
func flagError(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage(c, err)
	}
	name := unknown.GetSpecifiedName()
	for _, key := range []string{strings.TrimPrefix(c.CommandPath(), "podrun ") + " " + name, name} {
		if hint, ok := foreignFlags[key]; ok {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			return &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("%s has no flag %s%s", c.CommandPath(), dashes, name), Hint: hint}
		}
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if like := closestName(name, names); like != "" {
		err = fmt.Errorf("%w (did you mean --%s?)", err, like)
	}
	return usage(c, err)
}
