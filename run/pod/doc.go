// Package pod is what a process knows of one pod: its plan, what the runtime and the state
// files had when it was last observed, and the records that podrun keeps of it for later
// commands. Reading and recording need no ownership of the pod; package lease says who may
// change it.
package pod
