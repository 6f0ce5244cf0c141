// Package run is podrun's engine as its commands see it: one operation a file.
// Each takes the locks that it needs and leaves the work to the packages below:
// node admits pods, reconcile acts on them, observe reads them.
package run
