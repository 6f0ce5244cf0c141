package grammar

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ignoredFlag is a flag of a related tool that podrun accepts and ignores: it requests the
// command's only behavior, or has no meaning without an API server. The help does not list it.
type ignoredFlag struct {
	name, short string
	values      []string // accepted values; nil for a flag without a value, [""] for any
}

var anyValue = []string{""}

// IgnoredFlags lists the ignored flags by command.
var IgnoredFlags = map[string][]ignoredFlag{
	"apply": {{name: "server-side"}, {name: "force-conflicts"}, {name: "field-manager", values: anyValue}, {name: "overwrite"}, {name: "record"},
		{name: "save-config"}, {name: "cascade", values: []string{"background", "foreground"}}, {name: "detach", short: "d"}, {name: "start"}},
	"set image":       {{name: "record"}, {name: "field-manager", values: anyValue}},
	"set env":         {{name: "record"}, {name: "field-manager", values: anyValue}},
	"set resources":   {{name: "record"}, {name: "field-manager", values: anyValue}},
	"label":           {{name: "record"}, {name: "field-manager", values: anyValue}},
	"annotate":        {{name: "record"}, {name: "field-manager", values: anyValue}},
	"patch":           {{name: "record"}, {name: "field-manager", values: anyValue}},
	"edit":            {{name: "record"}, {name: "save-config"}, {name: "field-manager", values: anyValue}},
	"rollout restart": {{name: "field-manager", values: anyValue}},
	"delete":          {{name: "wait"}, {name: "cascade", values: []string{"background", "foreground"}}},
	"diff":            {{name: "server-side"}, {name: "force-conflicts"}, {name: "field-manager", values: anyValue}},
	"describe":        {{name: "chunk-size", values: anyValue}},
	"get": {{name: "all", short: "a"}, {name: "no-trunc"}, {name: "chunk-size", values: anyValue},
		{name: "show-managed-fields"}, {name: "output-watch-events"}, {name: "server-print"}, {name: "size"}, {name: "pod"}, {name: "ns"}},
	"events": {{name: "sort-by", values: anyValue}, {name: "chunk-size", values: anyValue}},
	"logs": {{name: "ignore-errors"}, {name: "details"}, {name: "no-pager"}, {name: "catalog", short: "x"}, {name: "pod-running-timeout", values: anyValue},
		{name: "insecure-skip-tls-verify-backend"}},
	"exec":         {{name: "pod-running-timeout", values: anyValue}},
	"attach":       {{name: "pod-running-timeout", values: anyValue}, {name: "sig-proxy"}},
	"port-forward": {{name: "pod-running-timeout", values: anyValue}, {name: "retries", values: anyValue}},
	"cp":           {{name: "retries", values: anyValue}, {name: "archive", short: "a"}},
	"debug":        {{name: "pod-running-timeout", values: anyValue}},
	"run": {{name: "no-tty"}, {name: "leave-stdin-open"}, {name: "save-config"}, {name: "field-manager", values: anyValue},
		{name: "pod-running-timeout", values: anyValue}},
	"top":        {{name: "no-stream"}, {name: "no-trunc"}, {name: "use-protocol-buffers"}, {name: "batch", short: "b"}, {name: "all", short: "a"}},
	"image ls":   {{name: "all", short: "a"}},
	"image pull": {{name: "disable-content-trust"}},
	"version":    {{name: "short"}},
}

// AddIgnoredFlags adds the ignored flags to those commands that root has.
func AddIgnoredFlags(root *cobra.Command) {
	for words, list := range IgnoredFlags {
		if first, _, _ := strings.Cut(words, " "); Named(root, first) == nil {
			continue
		}
		c, _, err := root.Find(strings.Fields(words))
		if err != nil {
			panic(err) // a command of the table does not exist
		}
		for _, f := range list {
			flag := c.Flags().VarPF(&ignoredValue{values: f.values}, f.name, f.short, "")
			flag.Hidden = true
			if f.values == nil {
				flag.NoOptDefVal = "true"
			}
		}
	}
}

// AcceptQuiet adds -q to the commands without it. It has no effect there, because these
// commands print only data.
func AcceptQuiet(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Runnable() && sub.Flags().Lookup("quiet") == nil {
			flag := sub.Flags().VarPF(&ignoredValue{}, "quiet", "q", "")
			flag.Hidden, flag.NoOptDefVal = true, "true"
		}
		AcceptQuiet(sub)
	}
}

// ignoredValue is the value of an ignored flag.
type ignoredValue struct{ values []string }

// Set rejects a value that requests something else, such as --wait=false.
func (v *ignoredValue) Set(text string) error {
	accepted := v.values
	if accepted == nil {
		accepted = []string{"true"}
	}
	for _, a := range accepted {
		if a == "" || a == text {
			return nil
		}
	}
	return &unsupportedValueError{accepted}
}

// unsupportedValueError is the error for a value that podrun does not support.
type unsupportedValueError struct{ accepted []string }

func (e *unsupportedValueError) Error() string {
	return "podrun supports only " + strings.Join(e.accepted, " and ")
}

func (v *ignoredValue) String() string { return "" }

// Type returns a type that no other flag has, so that podrun can recognize an ignored flag and
// return a specific error for its value.
func (v *ignoredValue) Type() string { return "ignored" }

var _ pflag.Value = (*ignoredValue)(nil)
