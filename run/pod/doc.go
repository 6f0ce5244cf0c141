// Package pod contains the state of one pod in a process: its plan, its last observation, and the
// records that podrun keeps for later commands. Reading and recording do not require ownership of the
// pod; package lease determines which process may change it.
package pod
