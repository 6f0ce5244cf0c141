// Package faultpoint marks the steps at which the crash sweep (test/crash) kills podrun. Its
// functions have an effect only in a binary that was built with -tags faultpoints. Releases are
// built without it.
package faultpoint
