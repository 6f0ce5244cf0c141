// Package script runs the scripts of testdata/script: podrun as a process, on the fake runtime
// and on real ones. Run one with `go test ./test/script -run TestScripts/containerd/NAME`.
package script
