// Package stop stops and removes pods. A stop runs preStop hooks and keeps the pod's order and
// grace periods, and can be interrupted: what was asked to stop is in the owner record first, so
// that the next owner completes it. A removal removes everything that podrun made for the pod, in
// an order in which it can be repeated after any failure.
package stop
