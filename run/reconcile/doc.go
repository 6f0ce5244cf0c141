// Package reconcile acts on pods. A Worker observes its pod, calls package lifecycle for
// the next actions, executes them, and repeats until a goal holds. It also stops, removes
// and rolls back pods, and runs their hooks and probes.
//
// All actions require that the command owns the pod (owned.go), and that the undo step of
// a call is registered before the call (undo.go). A worker keeps no state that it could
// not recover from the runtime's labels and the pod's directory, so any podrun process
// can continue where another was killed.
package reconcile
