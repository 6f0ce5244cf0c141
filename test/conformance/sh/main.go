// Sh is /bin/sh in the replacements of the specs' images. It is the shell of busybox, except that
// "sh -c env" prints the whole environment: Debian's busybox drops variables such as data-1, whose
// names are not identifiers, whereas the busybox of the specs' image keeps them.
package main

import (
	"fmt"
	"os"
	"slices"
	"syscall"
)

func main() {
	args := slices.Clone(os.Args) // the shell's messages contain the name
	if len(args) == 3 && args[1] == "-c" && args[2] == "env" {
		args = []string{"env"}
	}
	fmt.Fprintln(os.Stderr, "sh:", syscall.Exec("/bin/busybox", args, os.Environ()))
	os.Exit(126)
}
