// Package engine tests the operations of package run, and podrun serve, against the fake
// runtime of cri/critest: with real control groups, mounts and files, so that it needs root,
// and, where time matters, in a synctest bubble. The invariants of two commands at once
// (TestPairs) and of days of supervision (TestSimulatedDay) are checked by models.
package engine
