// Package reconcile acts on pods. A Worker observes its pod, asks package
// lifecycle what to do next, executes that, and repeats until a goal holds; it
// stops, removes and rolls back pods, and runs their hooks and probes.
//
// What acts on a pod does so while its command owns the pod (owned.go), and
// registers what undoes a call before the call (undo.go). A worker keeps no state
// that it could not find again from the runtime's labels and the pod's directory,
// so any podrun process can continue where another was killed.
package reconcile
