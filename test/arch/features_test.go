package arch

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
)

const packagesPage = "docs/design/packages.md"

// feature is a row of the table "Lines of each feature".
type feature struct {
	name, files  string
	lines, tests int
}

// featureRow matches a row of the table: the feature, its files, and the two numbers.
var featureRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ?([^|]*?) ?\| ([0-9,]+) \| ([0-9,]+) \|$`)

// TestFeatures compares the lines of each feature with the table in docs/design/packages.md, and logs the differences.
// They are not an error: a review sees what a change adds. PODRUN_WRITE=1 writes the table.
func TestFeatures(t *testing.T) {
	page, err := os.ReadFile(packagesPage)
	if err != nil {
		t.Fatal(err)
	}
	written := features(string(page))
	if len(written) < 20 {
		t.Fatalf("%s has only %d rows of features", packagesPage, len(written))
	}
	now := count(written, readTree(t, "."))
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var was, is feature
	for i, f := range append(now, feature{name: "all"}) {
		before := was
		if i < len(written) {
			before = written[i]
			was.lines, was.tests, is.lines, is.tests = was.lines+before.lines, was.tests+before.tests, is.lines+f.lines, is.tests+f.tests
		} else {
			f.lines, f.tests = is.lines, is.tests
		}
		fmt.Fprintf(w, "%d\t%+d\t%d of tests\t%+d\t  %s\n", f.lines, f.lines-before.lines, f.tests, f.tests-before.tests, f.name)
	}
	w.Flush()
	t.Logf("lines of each feature, and the changes since %s:\n%s", packagesPage, out.String())
	if os.Getenv("PODRUN_WRITE") == "" {
		return
	}
	i := -1
	text := featureRow.ReplaceAllStringFunc(string(page), func(string) string {
		i++
		return fmt.Sprintf("| %s | %s | %s | %s |", now[i].name, now[i].files, thousands(now[i].lines), thousands(now[i].tests))
	})
	if err := os.WriteFile(packagesPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// features reads the rows of the table.
func features(page string) (out []feature) {
	number := func(text string) int {
		n, _ := strconv.Atoi(strings.ReplaceAll(text, ",", "")) // featureRow has checked it
		return n
	}
	for _, m := range featureRow.FindAllStringSubmatch(page, -1) {
		out = append(out, feature{m[1], m[2], number(m[3]), number(m[4])})
	}
	return out
}

// count returns the features with their lines. A file belongs to the first feature that names it or its directory; the
// last feature gets the others.
func count(list []feature, all tree) []feature {
	out := make([]feature, len(list))
	for i, f := range list {
		out[i] = feature{name: f.name, files: f.files}
	}
	for _, s := range all {
		if isSupport(s.pkg) {
			continue
		}
		i := 0
		for ; i < len(out)-1 && !out[i].has(s.name); i++ {
		}
		if s.test {
			out[i].tests += s.lines
		} else {
			out[i].lines += s.lines
		}
	}
	return out
}

// has reports whether the feature names a file, its test, or one of its directories.
func (f feature) has(name string) bool {
	for _, m := range codeInPage.FindAllStringSubmatch(f.files, -1) {
		if dir, ok := strings.CutSuffix(m[1], "/"); ok && strings.HasPrefix(name, dir+"/") ||
			name == m[1] || name == strings.TrimSuffix(m[1], ".go")+"_test.go" {
			return true
		}
	}
	return false
}

// thousands formats a number with a comma before its last three digits.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
