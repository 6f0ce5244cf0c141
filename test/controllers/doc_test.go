// Package controllers compares the decisions of serve/schedule with those of the CronJob and Job
// controllers of Kubernetes, which run on a fake clientset and a fake clock. The functions of the
// controllers are not exported, so the tests link to them by name.
package controllers
