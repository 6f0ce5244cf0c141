// Package printers compares texts in cmd/view/testdata, with which the tests of cmd/view and cmd/inspect compare podrun's
// output, with the output of kubectl v1.36 for the same objects: of its describers, of its printers of
// custom columns and events, and of the tables that the API server makes for 'kubectl get'.
//
// Set PODRUN_WRITE=1 to rewrite the texts.
package printers
