// Package lease manages a process's ownership of one pod. A Lease reports whether the process may act
// on the pod now. It executes long calls without the pod's lock, and prevents decisions that are
// based on an outdated observation. Undo contains the steps that undo a failed start.
package lease
