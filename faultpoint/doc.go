// Package faultpoint marks the steps at which the crash sweep (test/crash) kills
// podrun. In an ordinary build its functions do nothing; only a binary that is built
// with -tags faultpoints, which no release is, can be killed by them.
package faultpoint
