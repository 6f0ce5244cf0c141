// Package cmd is podrun's command line. Each command has its own file, which parses flags
// into options, calls package run once, and renders the result. No pod logic lives here.
//
// All commands follow the same rules for output: stdout carries data (what the user
// requested: a plan, a table, logs, a JSON summary), stderr carries messages (events,
// warnings, errors). An error is one message, with a hint for the fix on a line of its
// own, and its exit code is defined in exit.go.
package cmd
