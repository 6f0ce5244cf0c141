// Package store manages podrun's state on disk: checkpoints, journals and other state
// files with their schema versions, locks, and the ownership of pods. It does not act on
// pods.
package store
