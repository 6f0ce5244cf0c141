package config

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

// Use is what a command uses the settings for. It decides what the command does if the settings file cannot be
// used.
type Use int

const (
	Changes    Use = iota // changes pods or this host: the default
	Reads                 // prints state, or connects to a running container
	Diagnoses             // doctor
	Supervises            // serve and podrun-node
)

// readingCommands are the commands whose Use is Reads.
var readingCommands = []string{"get", "describe", "events", "logs", "top", "wait", "diff", "plan", "exec", "attach", "port-forward", "cp", "version",
	"image ls", "rollout history", "rollout status", "runtime status", "runtime logs", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// UseOf returns what a command uses the settings for.
func UseOf(c *cobra.Command) Use {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	switch {
	case path == "doctor":
		return Diagnoses
	case path == "serve", !c.HasParent(): // podrun-node has no other commands
		return Supervises
	case slices.Contains(readingCommands, path):
		return Reads
	}
	return Changes
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
func (u Use) substitute(stored bool) substitute {
	switch {
	case u == Changes:
		return noSettings
	case stored:
		return lastValid
	case u == Diagnoses:
		return onlyDefault
	}
	return noSettings
}

// substituted returns settings after reading the file has failed with err, or err if there are none.
func (f *Flags) substituted(err error) (nodeconfig.Settings, problem.List, error) {
	if statefile.LacksResources(err) { // the file is not the cause
		return nodeconfig.Settings{}, nil, err
	}
	file := f.copyOf()
	data := file.Read(f.Ctx)
	what := "podrun uses the last valid settings, which it has stored in " + file.Path
	switch f.For.substitute(data != nil) {
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
	f.Fault = notes[0].String()
	if f.For == Diagnoses {
		f.Fault += "; commands that change pods fail; " + what
	}
	notes = append(notes, problem.Problem{Object: "settings", Message: what, Hint: "correct " + f.Config, Warning: true})
	f.Merged = &Merged{s, notes}
	return s, notes, nil
}

// copyOf returns the copy of the settings file.
func (f *Flags) copyOf() nodeconfig.Copy {
	if f.Copies != "" {
		return nodeconfig.CopyOf(f.Copies, f.Config)
	}
	root := ""
	if g := f.Set.Lookup("root-dir"); g != nil && g.Changed {
		s := nodeconfig.Settings{RootDir: g.Value.String()}
		absoluteRoot(&s)
		root = s.RootDir
	}
	return nodeconfig.CopyOf(nodeconfig.CopiesDir(root), f.Config)
}

// Keep stores the content of the settings file, for commands that find the file unusable later. Commands store only the
// default file, because another one may be temporary; supervisors also store the file of --config.
func (f *Flags) Keep() error {
	if f.Config == "" || f.Fault != "" || f.For != Supervises && f.Set.Changed("config") || os.Geteuid() != 0 {
		return nil
	}
	return f.copyOf().Keep(f.Ctx, f.content)
}

// merge applies the environment and the flags to the settings of a file.
func (f *Flags) merge(s nodeconfig.Settings, notes problem.List, err error) (nodeconfig.Settings, problem.List, error) {
	if err != nil {
		return s, nil, err
	}
	f.Set.VisitAll(func(flag *pflag.Flag) {
		if into := f.Into[flag.Name]; into != nil && flag.Changed {
			into(&s)
		}
	})
	absoluteRoot(&s)
	return s, notes, f.oneRuntime(&s)
}
