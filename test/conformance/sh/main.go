// Sh is /bin/sh in the stand-ins for the specs' images. It is the shell of busybox, except that
// "sh -c env" prints the whole environment: Debian's busybox drops variables such as data-1,
// whose names are not identifiers, and the busybox of the specs' image keeps them.
package main

import (
	"fmt"
	"os"
	"slices"
	"syscall"
)

func main() {
	args := slices.Clone(os.Args) // the name is in the messages of the shell
	if len(args) == 3 && args[1] == "-c" && args[2] == "env" {
		args = []string{"env"}
	}
	fmt.Fprintln(os.Stderr, "sh:", syscall.Exec("/bin/busybox", args, os.Environ()))
	os.Exit(126)
}
