// Package lifecycle decides the next actions for a pod, and computes its status, whether
// a goal holds, and its exit code. Its inputs are the pod, the observed state and the
// time. It is pure.
package lifecycle
