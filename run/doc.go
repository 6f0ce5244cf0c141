// Package run has the operations of commands, one per file: Apply, Delete, Run, Scale, Change and so on. An operation
// is a function of a node (node.Node) and one input, and returns a Report with one entry for each object, also after an
// error. Operations on existing pods select them with Targets.
//
// Functions with the suffix Pods (ApplyPods, StartPods, StopPods, ChangePods, DeletePods) are the part of an operation that acts on
// pods which were found. They lock the pods and delegate the work to the packages below: node admits pods, reconcile
// acts on them, lookup and observe read them.
package run
