// Package store is what podrun keeps on disk: checkpoints, journals and other state
// files with their schema versions, locks, and who owns a pod. It knows nothing of
// what is done with pods.
package store
