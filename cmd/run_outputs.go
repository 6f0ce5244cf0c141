package cmd

import (
	"errors"
	"fmt"
	"strings"
)

// outputGitHub is the value of -o of run for GitHub workflows.
const outputGitHub = "github"

// outputFlag is the value of -o of run: the format of the command's output, and the file of a
// test report.
type outputFlag struct{ format, junit string }

// Set adds one value. The command checks the format, because --dry-run and -d support others.
func (o *outputFlag) Set(value string) error {
	kind, file, given := strings.Cut(value, "=")
	switch {
	case kind == "junit" && file == "":
		return errors.New("junit requires a file: -o junit=FILE")
	case kind == "junit" && o.junit != "" && o.junit != file:
		return fmt.Errorf("the report has one file, but both %s and %s are given", o.junit, file)
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
