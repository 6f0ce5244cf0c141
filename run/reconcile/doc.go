// Package reconcile brings pods to their goals. Its loop observes a pod, calls package lifecycle
// for the next actions, executes them, and repeats; a command and serve differ in their policy
// and in how they wait. A Worker has the operations on one pod: apply, run, wait, supervise,
// stop, evict; applying is what an apply changes, takes over and rolls back.
//
// Nothing is kept that could not be recovered from the runtime's labels and the pod's directory,
// so any podrun process can continue where another was killed.
package reconcile
