// Package pod contains the knowledge of a process about one pod: its plan, its last observation, and
// the records that podrun keeps for later commands. Reading and recording do not require ownership of
// the pod. Package lease determines which process may change the pod.
package pod
