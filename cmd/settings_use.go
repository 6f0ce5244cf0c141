package cmd

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
)

// settingsUse is what a command uses the settings for. It decides what the command does if the settings file cannot be
// used.
type settingsUse int

const (
	changes    settingsUse = iota // changes pods or this host: the default
	reads                         // prints state, or connects to a running container
	diagnoses                     // doctor
	supervises                    // serve and podrun-node
)

// readingCommands are the commands whose settingsUse is reads.
var readingCommands = []string{"get", "describe", "events", "logs", "top", "wait", "diff", "plan", "exec", "attach", "port-forward", "cp", "version",
	"image ls", "rollout history", "rollout status", "runtime status", "runtime logs", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// useOf returns what a command uses the settings for.
func useOf(c *cobra.Command) settingsUse {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	switch {
	case path == "doctor":
		return diagnoses
	case path == "serve", !c.HasParent(): // podrun-node has no other commands
		return supervises
	case slices.Contains(readingCommands, path):
		return reads
	}
	return changes
}

// substitute is what a command uses if the settings file cannot be used.
type substitute int

const (
	noSettings  substitute = iota // the command fails
	lastValid                     // the last valid settings
	onlyDefault                   // the defaults, the environment and the flags
)

// substitute returns what a command uses if the settings file cannot be used; stored is true if the last valid settings
// are stored. Only doctor, which changes nothing, uses the defaults: they may select another root directory, or permit
// pods that the file refuses.
func (u settingsUse) substitute(stored bool) substitute {
	switch {
	case u == changes:
		return noSettings
	case stored:
		return lastValid
	case u == diagnoses:
		return onlyDefault
	}
	return noSettings
}

// substituted returns settings after reading the file has failed with err, or err if there are none.
func (f *settingsFlags) substituted(err error) (nodeconfig.Settings, problem.List, error) {
	if statefile.LacksResources(err) { // the file is not the cause
		return nodeconfig.Settings{}, nil, err
	}
	file := nodeconfig.CopyOf(f.copies, f.config)
	data := file.Read(f.ctx)
	what := "podrun uses the last valid settings, which it has stored in " + file.Path
	switch f.use.substitute(data != nil) {
	case noSettings:
		return nodeconfig.Settings{}, nil, err
	case onlyDefault:
		data, what = nil, "doctor uses the default settings"
	}
	s, _, invalid := f.merge(f.parse(data))
	if invalid != nil {
		return s, nil, err
	}
	notes := problem.Of(err)
	for i := range notes {
		notes[i].Warning = true
	}
	f.fault = notes[0].String()
	if f.use == diagnoses {
		f.fault += "; commands that change pods fail; " + what
	}
	notes = append(notes, problem.Problem{Object: "settings", Message: what, Hint: "correct " + f.config, Warning: true})
	f.merged = &mergedSettings{s, notes}
	return s, notes, nil
}

// keep stores the content of the settings file, for commands that find the file unusable later. Commands store only the
// default file, because another one may be temporary; supervisors also store the file of --config.
func (f *settingsFlags) keep() error {
	if f.config == "" || f.fault != "" || f.use != supervises && f.set.Changed("config") || os.Geteuid() != 0 {
		return nil
	}
	return nodeconfig.CopyOf(f.copies, f.config).Keep(f.ctx, f.content)
}

// keepSettings is keep for a supervisor, whose next start may need the stored settings.
func (a *app) keepSettings(r *renderer) {
	if err := a.settings.keep(); err != nil {
		r.warn(problem.List{problem.WarningOf(err)})
	}
}

// merge applies the environment and the flags to the settings of a file.
func (f *settingsFlags) merge(s nodeconfig.Settings, notes problem.List, err error) (nodeconfig.Settings, problem.List, error) {
	if err != nil {
		return s, nil, err
	}
	f.set.VisitAll(func(flag *pflag.Flag) {
		if into := f.into[flag.Name]; into != nil && flag.Changed {
			into(&s)
		}
	})
	absoluteRoot(&s)
	return s, notes, f.oneRuntime(&s)
}
