// Package engine tests the operations of package run, and podrun serve, with the fake runtime of
// cri/critest. It uses real cgroups, mounts and files, so it requires root. Tests that depend on
// time run in a synctest bubble. Models check the invariants of two concurrent commands (TestPairs)
// and of days of supervision (TestSimulatedDay).
package engine
