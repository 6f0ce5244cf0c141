package nodeconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of this process. It does not depend on the load of the host.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestParseHostile checks that Parse limits its CPU time and the number of problems for a
// file of the maximum size, whatever the file contains.
func TestParseHostile(t *testing.T) {
	fill := func(text string) string { return strings.Repeat(text, maxFile/len(text)) }
	var bomb strings.Builder
	bomb.WriteString(beginPodrun + "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 30 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	for name, text := range map[string]string{
		"nested lists":      beginPodrun + "sources: " + fill("["),
		"nested mappings":   beginPodrun + "devices: " + fill("{a: "),
		"many documents":    fill("---\na: b\n"),
		"markers":           fill("---\n"),
		"many fields":       beginPodrun + fill("a: b\n"),
		"a long key":        beginPodrun + fill("a") + ": b\n",
		"a long text":       beginPodrun + "rootDir: /" + fill("a") + "\n",
		"many sources":      beginPodrun + "sources: [" + fill("/a,") + "]",
		"aliases":           bomb.String(),
		"NUL":               fill("\x00"),
		"a long number":     begin + "maxPods: " + fill("9") + "\n",
		"a large exponent":  begin + "maxPods: 1e999999999\n",
		"a long quantity":   begin + "reservedMemory: [{numaNode: 0, limits: {memory: \"1e-999999999\"}}]\n",
		"comments":          begin + fill("# a\n"),
		"many labels":       beginPodrun + "nodeLabels: {" + fill("a: b,") + "}",
		"not UTF-8":         fill("\xff\xfe"),
		"fields of fields":  begin + "authentication: {" + fill("a: {b: c},") + "}",
		"an open quotation": beginPodrun + "rootDir: \"" + fill("a\n"),
	} {
		t.Run(name, func(t *testing.T) {
			start := cpuTime(t)
			_, problems := Parse([]byte(text), Default())
			if len(problems) > maxDocuments*maxProblems+1 {
				t.Errorf("%d problems", len(problems))
			}
			if took := cpuTime(t) - start; took > 10*time.Second {
				t.Errorf("%d bytes took %s", len(text), took)
			} else {
				t.Logf("%s, %d problems", took, len(problems))
			}
		})
	}
}
