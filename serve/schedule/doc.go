// Package schedule decides the next actions for the Jobs and CronJobs of a host, as the Job and
// CronJob controllers of Kubernetes v1.36 do (docs/design/schedules.md). Apart from Parse, its
// functions are pure. test/controllers compares them with the controllers.
package schedule
