// Package inside contains the commands that work inside the containers of a pod: exec, attach, cp,
// port-forward and debug.
package inside
