package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeServeTable prints the figures next to their targets and the figures of the kubelet.
func writeServeTable(w io.Writer, rows []serveRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d processors\tpodrun serve\tmin / median / max\ttarget\t\tkubelet 1.36\n", runtime.NumCPU())
	for _, r := range rows {
		spread, target, mark := "", "-", ""
		if len(r.Samples) > 0 {
			spread = fmt.Sprintf("%s / %s / %s", r.shown(slices.Min(r.Samples)), r.shown(r.Samples.median()), r.shown(slices.Max(r.Samples)))
		}
		if r.Target > 0 {
			target, mark = "<= "+r.shown(r.Target), "pass"
			if r.Value > r.Target {
				mark = "FAIL"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, strings.TrimSpace(r.shown(r.Value)+" "+r.Unit), spread, target, mark, r.Kubelet)
	}
	return t.Flush()
}

// shown formats a number with the number of significant digits for its size.
func (r serveRow) shown(v float64) string {
	switch {
	case v != 0 && v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// removeFile removes a file that may not exist.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
