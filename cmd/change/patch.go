package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/change"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
)

// maxPatch is the maximum size of a patch, in bytes.
const maxPatch = 3 << 20

// NewPatch returns `podrun patch`.
func NewPatch(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	kind, patch, file := "", "", ""
	c := &cobra.Command{
		Use:   "patch POD -p PATCH | --patch-file FILE",
		Short: "Change fields of pods with a patch",
		Long: `Change fields of pods with a patch in JSON or YAML: a strategic merge patch (which
merges lists such as containers by name), a JSON merge patch (RFC 7386) or a JSON
patch (RFC 6902). To change the pod of a workload, patch the pod template:
{"spec":{"template":{"spec":…}}}.
` + changeNote,
		Example: `  podrun patch web -p '{"spec":{"containers":[{"name":"app","image":"nginx:1.27"}]}}'
  podrun patch web --type=merge -p '{"metadata":{"labels":{"tier":null}}}'
  podrun patch web --type=json -p '[{"op":"replace","path":"/spec/containers/0/image","value":"nginx:1.27"}]'`,
		RunE: func(c *cobra.Command, given []string) error {
			kind := change.PatchType(strings.ToLower(kind))
			switch {
			case patch != "" && file != "":
				return grammar.Usage(c, errors.New("cannot specify --patch and --patch-file together"))
			case patch == "" && file == "":
				return problem.UsageError(errors.New("must specify --patch or --patch-file containing the contents of the patch"), "write -p '{\"spec\":…}'")
			case kind != change.Strategic && kind != change.Merge && kind != change.JSON:
				return problem.UsageError(fmt.Errorf("--type must be one of json, merge, strategic, not %q", string(kind)), "--type=strategic is the default")
			}
			data := []byte(patch)
			if file != "" {
				var err error
				if data, err = hostfile.ReadInput(c.Context(), file, maxPatch); err != nil {
					return grammar.Usage(c, fmt.Errorf("--patch-file: %w", err))
				}
			}
			data, err := podPatch(kind, data)
			if err != nil {
				return err
			}
			// as an API server handles unknown fields in a patch by default
			f.validate = string(manifest.Warn)
			return runChange(a, c, f, given, "patched (no change)", run.ChangeInput{Define: func(now run.Current) (run.Redefinition, error) {
				after, err := change.PatchPod(now.Pod, kind, data)
				return run.Redefinition{Manifest: after, Done: "patched"}, err
			}})
		},
	}
	f.add(a, c)
	c.Flags().StringVarP(&patch, "patch", "p", "", "`patch` in JSON or YAML")
	c.Flags().StringVar(&file, "patch-file", "", "`file` with the patch")
	c.Flags().StringVar(&kind, "type", string(change.Strategic), "type of the patch: json, merge or strategic")
	return c
}

// podPatch returns a patch as JSON, with paths that begin at the pod.
func podPatch(kind change.PatchType, data []byte) ([]byte, error) {
	var raw json.RawMessage
	if err := manifest.Decode(input.Source{Name: "the patch", Data: data}, &raw); err != nil {
		return nil, problem.UsageError(fmt.Errorf("unable to parse %w", err), "write the patch in JSON or YAML, in single quotes")
	}
	patch, rest, err := change.OfTemplate(kind, raw)
	if err != nil {
		return nil, problem.UsageError(fmt.Errorf("unable to parse the patch: %w", err), "a patch of --type=json is a list of operations, other patches are objects")
	}
	if len(rest) > 0 {
		hint := "patch only the pod template, or change the manifest and run 'podrun apply FILE'"
		if slices.Equal(rest, []string{"spec.replicas"}) {
			hint = "run 'podrun scale TYPE/NAME --replicas=N' to change the number of pods"
		}
		return nil, problem.UsageError(fmt.Errorf("podrun patches only the pods of a workload: %s cannot be patched", strings.Join(rest, ", ")), hint)
	}
	return patch, nil
}
