// Package run is podrun's engine: it observes a pod on the runtime, plans the
// next actions, and executes them, until a goal holds.
//
// What there is to do is data (Plan, Observed, Action) and is decided by pure
// functions (NewPlan, Next, the goals, Status). What acts is in the files
// execute*.go, observe.go, watch.go, lock.go, journal.go and delete.go. The
// engine keeps no state of its own that it could not find again from the
// runtime's labels and the pod's directory, so any podrun process can go on
// where another was killed.
package run
