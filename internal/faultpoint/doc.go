// Package faultpoint marks the steps at which the crash sweep (test/crash) kills podrun. Its
// functions have an effect only in a binary built with -tags faultpoints; releases are built
// without it.
package faultpoint
