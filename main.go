// Podrun runs a Kubernetes Pod on one host, as the kubelet would, without a cluster. README.md
// describes its features, and ARCHITECTURE.md its code.
package main

import (
	"context"
	"os"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/internal/heap"             // sets the pace of garbage collection, before all else
	_ "github.com/podrun/podrun/internal/rootless/entry" // enters the namespaces of an ordinary user, before all else
)

// version is the version of podrun, which the linker sets (make build).
var version = "devel"

func main() {
	os.Exit(cmd.Main(context.Background(), os.Args[1:], cmd.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version, heap.Began))
}
