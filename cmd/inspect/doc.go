// Package inspect contains the commands that show objects: get, describe, events, logs, top and explain. They
// change nothing.
package inspect
