// Package lifecycle decides what is to be done about a pod: from the pod, what was
// observed of it and the time to the next actions, its status, whether a goal
// holds, and its exit code. It is pure.
package lifecycle
