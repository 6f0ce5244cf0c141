// Package entry makes podrun enter the namespaces of the user's podrun-rootless, before Go initializes the large
// packages: a command then costs about as much as with root. Only package main imports it.
//
// It imports only package rootless and small packages of the standard library, so that Go initializes it early (see
// package heap). It only handles the usual case, a living podrun-rootless. package cmd handles the others.
package entry

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/podrun/podrun/internal/rootless"
)

// outside are the commands that never enter the namespaces: they neither use the runtime nor read the state of pods.
var outside = []string{"version", "help", "completion", "options", "explain", "service", "__complete", "__completeNoDesc", "-h", "--help", "--version"}

func init() {
	if os.Geteuid() == 0 || staysOutside(os.Args[1:]) {
		return
	}
	r := rootless.ReadRecord()
	if !r.Alive() {
		return
	}
	program, err := os.Executable()
	if err != nil || strings.HasSuffix(program, " (deleted)") {
		return
	}
	args := rootless.EnterArgs(r.Enter, r.PID, r.StartTime, program, os.Args[1:])
	_ = syscall.Exec(args[0], args, os.Environ()) // if it fails, package cmd reports the error
}

// staysOutside reports whether a command line's first word is that of a command that does not enter, or whether it
// has no words. The values of global flags may be taken for the command; the command then enters, which is correct
// but slower.
func staysOutside(args []string) bool {
	for _, arg := range args {
		if slices.Contains(outside, arg) {
			return true
		}
		if !strings.HasPrefix(arg, "-") {
			return false
		}
	}
	return true
}
