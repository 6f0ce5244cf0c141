// Package run is the engine's interface for commands: one operation per file. Each
// operation takes the required locks and delegates the work to the packages below: node
// admits pods, reconcile acts on them, observe reads them.
package run
