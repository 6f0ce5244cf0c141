// Package cmd is podrun's command line: one command a file, each of them flags
// to options to one call of package run, and the renderers of what comes back.
// No pod logic lives here.
//
// The rules of output, for all commands: stdout carries data (what was asked
// for: a plan, a table, logs, a JSON summary), stderr carries talk (events,
// warnings, errors). An error is one message, with a hint for the fix on a
// line of its own, and its exit code is that of exit.go.
package cmd
