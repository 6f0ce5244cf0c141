package cmd

import (
	"runtime/debug"
	"testing"
)

func TestUnusedMemory(t *testing.T) {
	percent := debug.SetGCPercent(-1) // only this test collects garbage
	defer debug.SetGCPercent(percent)
	debug.FreeOSMemory()
	if n := unusedMemory(); n > spareBytes {
		t.Fatalf("%d bytes are unused after a collection", n)
	}
	garbage := make([]byte, 4*spareBytes)
	_ = garbage[len(garbage)-1]
	if n := unusedMemory(); n < 3*spareBytes {
		t.Errorf("only %d bytes are unused, of which the garbage has %d", n, 4*spareBytes)
	}
	debug.FreeOSMemory()
	if n := unusedMemory(); n > spareBytes {
		t.Errorf("%d bytes are unused after they were returned", n)
	}
}
