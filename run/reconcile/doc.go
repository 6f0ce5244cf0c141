// Package reconcile works on pods until they reach their goals. Its loop observes a pod, asks package
// lifecycle for the next actions, executes them, and repeats. Commands and `podrun serve` differ only
// in their policies and in how they wait. A Worker implements the operations on one pod: apply, run,
// wait, supervise, stop, evict. The type applying implements the steps that are specific to apply:
// changes, takeovers and rollbacks.
//
// The package keeps no state that podrun could not recover from the runtime's labels and the pod's
// directory, so any podrun process can resume the work of a killed one.
package reconcile
