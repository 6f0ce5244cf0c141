// Package pods contains the commands that start, stop and delete pods: apply, create, run, wait, start, restart,
// stop and delete, and plan and diff, which show what apply would do.
package pods
