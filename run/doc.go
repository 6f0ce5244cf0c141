// Package run has the operations of commands, one per file: Apply, Delete, Run, Scale, Change and so on. Each is a
// function of a node (node.Node) and an input. It takes the required locks and delegates the work to the packages
// below: node admits pods, reconcile acts on them, lookup and observe read them.
package run
