// Package lifecycle decides the next actions for a pod. It also computes the pod's status and exit
// code, and whether the pod has reached a goal. Its inputs are the pod, the observed state and the
// time. It is pure.
package lifecycle
