// Package jobs runs the Jobs and CronJobs of `podrun serve` (docs/design/schedules.md). It reads the
// records of run/store and the status of the pods, calls the decision functions of serve/schedule,
// and writes the records. The supervisor runs the pods that the records define.
package jobs
