// Package start starts a pod: its sandbox, and its containers in the order that
// lifecycle.Next decides. steps.go lists the steps of both. What may have been made is undone if
// the start fails before the first container runs.
package start
