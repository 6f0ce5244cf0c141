// Package stop stops and removes pods. A stop runs preStop hooks, and observes the stop order and
// the grace periods. It can be interrupted: it first records the containers to stop in the owner
// record, so that the next owner can complete the stop. A removal deletes everything that podrun
// created for the pod. Its order allows it to be repeated after any failure.
package stop
