// Package cmd is podrun's command line. Each command has its own file, which parses flags
// into options, calls package run once, and renders the result. No pod logic lives here.
//
// All commands follow the same rules for output: stdout carries data (what the user requested:
// a plan, a table, logs, a JSON summary), stderr carries messages (events, warnings, errors).
// Each error is printed as one message, followed by a line with a hint on how to fix it;
// exit.go defines the exit codes.
package cmd
