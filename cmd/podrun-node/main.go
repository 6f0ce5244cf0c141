// Podrun-node makes a host a node of an existing cluster: it runs the pods that are bound to the
// node. docs/grow.md describes how a host joins a cluster, and docs/design/node.md describes the
// implementation.
package main

import (
	"context"
	"os"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/internal/heap" // sets the pace of garbage collection, before all else
	"github.com/podrun/podrun/serve/cluster"
)

// version is the version of podrun, which the linker sets (make build-node).
var version = "devel"

func main() {
	streams := cmd.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(cmd.NodeMain(context.Background(), os.Args[1:], streams, version, heap.Began, cluster.NewJoiner(version)))
}
