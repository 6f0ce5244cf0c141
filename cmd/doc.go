// Package cmd is podrun's command line: it creates the commands (commands.go) and runs one (root.go). The
// commands are in packages by purpose: pods, change, inspect, inside, images, system. Each command has its own
// file. The file parses flags into options, calls package run once, and renders the result. No pod logic lives
// here.
//
// All commands follow the same rules for output. stdout carries the data that the user requested: a
// plan, a table, logs, a JSON summary. stderr carries messages: events, warnings, errors. Each
// error is printed as one message. A line with a hint follows, which says how to fix the error.
// exit/code.go defines the exit codes.
package cmd
