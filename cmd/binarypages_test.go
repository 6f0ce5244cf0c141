package cmd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnmapBinary(t *testing.T) {
	before := residentFilePages(t)
	if err := unmapBinary(); err != nil {
		t.Fatal(err)
	}
	// Reading the value maps some pages again.
	if after := residentFilePages(t); after >= before/2 {
		t.Errorf("%d kB of files are mapped, and %d kB before", after, before)
	}
}

// residentFilePages returns the size, in kB, of the pages of files in this process's memory.
func residentFilePages(t *testing.T) (n int) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, value, found := strings.Cut(string(data), "RssFile:")
	if _, err := fmt.Sscan(value, &n); !found || err != nil {
		t.Fatalf("no RssFile in %s: %v", data, err)
	}
	return n
}

func TestBinaryMappings(t *testing.T) {
	const path = "/usr/local/bin/podrun"
	var smaps strings.Builder
	for _, m := range []struct {
		at, mode, path string
		anonymous      int
	}{
		{"00400000-018cc000", "r-xp", path, 0},
		{"018cc000-02ed2000", "r--p", path, 0},
		{"12ed2000-12f71000", "r--p", path, 4}, // relocations
		{"22ed2000-22f71000", "rw-p", path, 0},
		{"32ed2000-32f71000", "r--s", path, 0},
		{"42ed2000-42f71000", "r--p", path + " (deleted)", 0},
		{"52f71000-54fbc000", "r--p", "", 0},
	} {
		fmt.Fprintf(&smaps, "%s %s 00000000 fe:00 10002874      %s\nSize:     636 kB\nAnonymous:   %d kB\nVmFlags: rd ex mr mw me\n", m.at, m.mode, m.path, m.anonymous)
	}
	got, err := binaryMappings(strings.NewReader(smaps.String()), path)
	if want := []mapping{{0x400000, 0x18cc000}, {0x18cc000, 0x2ed2000}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
}
