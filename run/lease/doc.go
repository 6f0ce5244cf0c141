// Package lease is a process's ownership of one pod. A Lease says whether the process may act on
// the pod now, does long calls without the pod's lock, and makes sure that nothing is decided
// afterwards from what was known before. Undo is what a failed start takes back.
package lease
