package grammar

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
)

// FlagError returns the usage error for a flag. Its hint states the flag that the user probably meant, or the form of
// the value.
func (a *Line) FlagError(c *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		dashes := "--"
		if missing.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return valueError(c, missing.GetFlag(), fmt.Errorf("%s%s requires a value", dashes, missing.GetSpecifiedName()), "")
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return valueError(c, invalid.GetFlag(), invalidValue(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()), invalid.GetValue())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usage(c, err)
	}
	name := unknown.GetSpecifiedName()
	var names, own []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if !f.Hidden && c.Root().PersistentFlags().Lookup(f.Name) == nil && f.Name != "help" {
			own = append(own, "--"+f.Name)
		}
	})
	e := &problem.Error{Kind: problem.Usage, Err: err, Hint: "see '" + c.CommandPath() + " --help'"}
	if like := ClosestName(name, names); like != "" {
		e.Err = fmt.Errorf("%w (did you mean --%s?)", err, like)
		if hint := a.withFlag(name, like); hint != "" {
			e.Hint = hint
		}
	} else if len(own) > 0 && len(own) <= 40 {
		e.Hint = c.CommandPath() + " accepts " + strings.Join(own, ", ") + "; run 'podrun options' for the flags that all commands accept"
	}
	return e
}

// invalidValue describes an invalid value of a flag without the names of Go's functions.
func invalidValue(f *pflag.Flag, value string, err error) error {
	switch f.Value.Type() {
	case "duration":
		return fmt.Errorf("--%s=%s is not a duration", f.Name, value)
	case "int", "int32", "int64", "uint", "uint64":
		return fmt.Errorf("--%s=%s is not a whole number", f.Name, value)
	case "bool":
		return fmt.Errorf("--%s=%s is neither true nor false", f.Name, value)
	}
	return fmt.Errorf("--%s=%s: %w", f.Name, value, err)
}

// valueError returns the usage error for a flag's value, with a hint on its form.
func valueError(c *cobra.Command, f *pflag.Flag, err error, given string) error {
	name, text := pflag.UnquoteUsage(f)
	dashed := "--" + f.Name
	if name == f.Value.Type() {
		name = "value"
	}
	hint := fmt.Sprintf("write %s=%s: %s", dashed, strings.ToUpper(name), text)
	switch f.Value.Type() {
	case "duration":
		hint = "write a number and a unit, such as " + dashed + "=" + LikelyDuration(given)
	case "int", "int32", "int64", "uint", "uint64":
		hint = "write a number, such as " + dashed + "=20"
	case "bool":
		hint = "write " + dashed + " or " + dashed + "=false"
	}
	if f.Name == "device" && strings.HasPrefix(given, "/") { // as in docker
		hint = "--device is for CDI devices; use --privileged with -v " + shellword.Quote(given) + ":" + shellword.Quote(given) + " for a device file"
	}
	if f.Name == "namespace" && c.Flags().Lookup("all-namespaces") != nil {
		hint += "; -A selects all namespaces"
	}
	return problem.UsageError(err, hint)
}

// spokenDuration is a duration as journalctl and date accept it.
var spokenDuration = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-?([0-9]+)\s*([smhd]?)[a-z]*(\s+ago)?$`)
})

// LikelyDuration returns the duration that the user probably meant.
func LikelyDuration(given string) string {
	m := spokenDuration().FindStringSubmatch(strings.ToLower(strings.TrimSpace(given)))
	switch {
	case m == nil:
		return "30s or 5m"
	case m[2] == "d":
		days, _ := strconv.Atoi(m[1]) // 0 if the number has too many digits
		return strconv.Itoa(days*24) + "h"
	case m[2] == "":
		return m[1] + "s"
	}
	return m[1] + m[2]
}
