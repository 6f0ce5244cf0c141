// Package schedule decides what the Jobs and CronJobs of a host need next, as the Job and
// CronJob controllers of Kubernetes v1.36 do (docs/design/schedules.md). Apart from Parse, its
// functions are pure. test/controllers compares them with the controllers.
package schedule
