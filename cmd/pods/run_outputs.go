package pods

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
)

// outputGitHub is the value of -o of run for GitHub workflows.
const outputGitHub = "github"

// outputFlag is the value of -o of run: the format of the command's output, and the file of a
// test report.
type outputFlag struct{ format, junit string }

// Set adds one value. The command checks the format, because --dry-run and -d support different
// formats.
func (o *outputFlag) Set(value string) error {
	kind, file, given := strings.Cut(value, "=")
	switch {
	case kind == "junit" && file == "":
		return errors.New("junit requires a file: -o junit=FILE")
	case kind == "junit" && o.junit != "" && o.junit != file:
		return fmt.Errorf("set one file for the report, not both %s and %s", o.junit, file)
	case kind == "junit" && given:
		o.junit = file
	case o.format != "" && o.format != value:
		return fmt.Errorf("%s and %s cannot be used together", o.format, value)
	default:
		o.format = value
	}
	return nil
}

// String returns the values, for help.
func (o *outputFlag) String() string {
	if o.junit == "" {
		return o.format
	}
	return strings.TrimPrefix(o.format+",junit="+o.junit, ",")
}

// Type returns the type of the value, which the help does not show.
func (o *outputFlag) Type() string { return "string" }

// keepInput refuses an output file that is also an input manifest: the command would overwrite
// the manifest before it reads it.
func (f *runFlags) keepInput(named []string) error {
	for _, file := range []struct{ flag, output string }{{"-o junit=", f.outputs.junit}, {"--log-file=", f.logFile}} {
		for _, input := range slices.Concat(named, f.Files) {
			if file.output != "" && overwrites(file.output, input) {
				return &problem.Error{
					Kind:   problem.Usage,
					Object: file.flag + file.output,
					Err:    errors.New("podrun would overwrite this file, which is a manifest of the command"),
					Hint:   "name another file",
				}
			}
		}
	}
	return nil
}

// overwrites reports whether output is the manifest input or, if input is a directory, a
// manifest in it.
func overwrites(output, input string) bool {
	written, err := os.Stat(output)
	if err != nil {
		return false // the command creates the file
	}
	read, err := os.Stat(input)
	if err != nil {
		return false
	}
	if !read.IsDir() {
		return os.SameFile(written, read)
	}
	parent, err := os.Stat(filepath.Dir(output))
	return err == nil && os.SameFile(parent, read) && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(output))
}
