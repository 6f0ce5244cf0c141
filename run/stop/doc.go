// Package stop stops and removes pods. A stop runs preStop hooks and respects the stop order and
// the grace periods. It can be interrupted, because it first records the containers to stop in the
// owner record, so that the next owner can complete the stop. A removal deletes everything that
// podrun created for the pod. The order of its steps allows podrun to repeat it after any failure.
package stop
