// Package change contains the commands that change the definitions of pods: set, label, annotate, patch, edit,
// rollout and scale.
package change
