// Package observe reads the state of a pod: its sandboxes and containers from the runtime, and the
// state of its hooks, probes and restarts from its directory. It waits for containers to exit, and
// computes the status that `get` shows. It changes nothing.
package observe
