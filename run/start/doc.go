// Package start starts a pod: it creates the sandbox and starts the containers in the order that
// lifecycle.Next decides. steps.go lists the steps for the sandbox and for the containers. If a start
// fails before the first container runs, the package removes everything that the start may have
// created.
package start
