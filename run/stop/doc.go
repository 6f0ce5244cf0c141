// Package stop stops and removes pods. A stop runs preStop hooks, observes the stop order and the
// grace periods, and can be interrupted: the containers to stop are recorded in the owner record
// first, so that the next owner can complete the stop. A removal deletes everything that podrun
// created for the pod, in an order that allows it to be repeated after any failure.
package stop
