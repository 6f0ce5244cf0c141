package cmd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapBinary removes the pages of the binary from this process's page tables, so that they no longer
// count as its memory. They remain in the page cache. The kernel maps the pages again that the process
// still uses; a supervisor that has started uses only a part of them.
func unmapBinary() error {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer maps.Close()
	found, err := binaryMappings(maps, path)
	if err != nil {
		return err
	}
	for _, m := range found {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("unmap the pages of %s: %w", path, errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// binaryMappings returns the mappings in /proc/self/smaps that contain only unmodified pages of the file
// at path: private mappings that are not writable and have no anonymous pages. A mapping with relocations
// or breakpoints has anonymous pages, which unmapBinary would lose.
func binaryMappings(smaps io.Reader, path string) (found []mapping, err error) {
	var m mapping
	ours := false
	for lines := bufio.NewScanner(smaps); ; {
		if !lines.Scan() {
			return found, lines.Err()
		}
		line := lines.Text()
		var start, end uintptr
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); n == 3 {
			m, ours = mapping{start, end}, strings.HasSuffix(line, " "+path) && (mode == "r-xp" || mode == "r--p")
			continue
		}
		var kilobytes int
		if n, _ := fmt.Sscanf(line, "Anonymous: %d kB", &kilobytes); n == 1 && ours && kilobytes == 0 {
			found = append(found, m)
		}
	}
}
