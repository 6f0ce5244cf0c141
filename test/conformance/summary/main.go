// Summary adds up the reports of several runs of the same specs:
//
//	summary -selected DRY-RUN.json -skips FILE REPORT.json...
//
// DRY-RUN.json is ginkgo's report of a dry run with the same selection and without skips: its
// specs are those of the summary. Each REPORT.json is ginkgo's report of one run. A line of
// FILE is a regular expression, a tab, and the reason why the specs that match are skipped.
//
// It prints Markdown, and exits with code 1 if a spec failed in any run.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

func main() {
	selected := flag.String("selected", "", "`report` of the dry run")
	skips := flag.String("skips", "", "`file` of the skips")
	flag.Parse()
	specs, err := read(*selected, *skips, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(2)
	}
	fmt.Print(render(specs, flag.NArg()))
	if count(specs, failed)+count(specs, flaky)+count(specs, notRun) > 0 {
		os.Exit(1)
	}
}

func read(selected, skips string, reports []string) ([]*spec, error) {
	list, err := readSkips(skips)
	if err != nil {
		return nil, err
	}
	plan, err := readReport(selected)
	if err != nil {
		return nil, err
	}
	var runs []types.SpecReports
	for _, path := range reports {
		run, err := readReport(path)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return collect(plan, list, runs), nil
}

func readReport(path string) (types.SpecReports, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []types.Report
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var specs types.SpecReports
	for _, suite := range suites {
		specs = append(specs, suite.SpecReports.WithLeafNodeType(types.NodeTypeIt)...)
	}
	return specs, nil
}

// skip is a line of the file of skips.
type skip struct {
	specs  *regexp.Regexp
	reason string
}

func readSkips(path string) ([]skip, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []skip
	for line := range strings.Lines(string(content)) {
		pattern, reason, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || reason == "" {
			return nil, fmt.Errorf("%s: %q has no reason", path, line)
		}
		specs, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, skip{specs, reason})
	}
	return list, nil
}
