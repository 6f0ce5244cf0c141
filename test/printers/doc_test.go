// Package printers compares the texts in cmd/testdata/describe/objects, which the tests of package cmd
// compare with podrun's output, with those of kubectl's describers. The describers read the objects from
// a server that answers from the file.
//
// Set PODRUN_WRITE=1 to rewrite the texts.
package printers
