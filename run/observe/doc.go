// Package observe reads what is known of a pod: what the runtime has of it and
// what its directory keeps of its hooks, probes and restarts. It waits for
// containers to exit, and puts the status together that `get` shows. It changes
// nothing.
package observe
