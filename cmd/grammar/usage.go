package grammar

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/internal/problem"
)

// Usage wraps err in a usage error, unless err already is a usage error with a hint.
func Usage(c *cobra.Command, err error) error {
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Kind == problem.Usage && e.Hint != "" {
		return err
	}
	return &problem.Error{Kind: problem.Usage, Err: err, Hint: "see '" + c.CommandPath() + " --help'"}
}

// Args wraps a check of positional arguments, so that podrun exits with 120 if it fails.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := check(c, given); err != nil {
			return argsError(c, given, err)
		}
		return nil
	}
}

// argsError returns the usage error for positional arguments that a check of cobra rejected. The hint is the form of
// the command, with its first example.
func argsError(c *cobra.Command, given []string, err error) error {
	if _, ok := errors.AsType[*UnknownWord](err); ok {
		return Usage(c, err)
	}
	form := c.UseLine()
	if !c.DisableFlagsInUseLine {
		form = strings.TrimSuffix(form, " [flags]")
	}
	hint := "use '" + form + "'"
	if example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n"); example != "" && example != form {
		hint += ", for example '" + example + "'"
	}
	if len(given) == 0 {
		return problem.UsageError(errors.New("arguments are missing"), hint)
	}
	return problem.UsageError(fmt.Errorf("wrong number of arguments: %d", len(given)), hint)
}

// IsTopic reports whether c is a help topic.
func IsTopic(c *cobra.Command) bool { return !c.Runnable() && !c.HasSubCommands() }
