// Changelog-check checks the format of CHANGELOG.md. It also checks that the versions in this
// file agree with those of git and go.mod:
//
//	go run ./hack/changelog-check
//
// In a clone without tags, it does not compare the tags.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	problems, err := examine()
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "hack/changelog-check:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// examine reads the files of the working directory and the tags of the repository.
func examine() ([]string, error) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	all, err := lines("git", "tag", "--list", "v*")
	if err != nil {
		return nil, err
	}
	here, err := lines("git", "tag", "--list", "v*", "--points-at", "HEAD")
	if err != nil {
		return nil, err
	}
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile("cmd/version.go")
	if err != nil {
		return nil, err
	}
	problems := check(string(text), all, here)
	want := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes (v\S+)`).FindSubmatch(gomod)
	got := regexp.MustCompile(`kubernetesVersion = "(v[^"]+)"`).FindSubmatch(program)
	if want == nil || got == nil || string(want[1]) != string(got[1]) {
		problems = append(problems, fmt.Sprintf("go.mod requires Kubernetes %q, and cmd/version.go prints %q", want, got))
	}
	return problems, nil
}

func lines(name string, args ...string) ([]string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.Fields(string(out)), nil
}

var (
	release = regexp.MustCompile(`^## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)$`)
	// The groups are from Keep a Changelog 1.1.0.
	groups = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
)

// version is the version of a release.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// check returns the problems of a changelog in a repository with the given tags. The argument here
// contains the tags of the current commit.
func check(text string, tags, here []string) []string {
	var problems []string
	complain := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("CHANGELOG.md:%d: ", line)+fmt.Sprintf(format, args...))
	}
	var versions []version
	var last time.Time
	// entries is the number of entries below Unreleased.
	sections, entries := 0, 0
	for i, line := range strings.Split(text, "\n") {
		at := i + 1
		switch {
		case strings.HasPrefix(line, "### "):
			if !slices.Contains(groups, line[4:]) {
				complain(at, "the group %q is not one of %s", line[4:], strings.Join(groups, ", "))
			}
		case strings.HasPrefix(line, "- ") && sections == 1:
			entries++
		case !strings.HasPrefix(line, "## "):
		case sections == 0:
			sections++
			if line != "## [Unreleased]" {
				complain(at, "the first section is %q, not [Unreleased]", line[3:])
			}
		default:
			sections++
			v, date, err := heading(line)
			if err != nil {
				complain(at, "%v", err)
				continue
			}
			if n := len(versions); n > 0 && slices.Compare(v[:], versions[n-1][:]) >= 0 {
				complain(at, "%s is not before %s: the newest release comes first", v, versions[n-1])
			}
			if !last.IsZero() && date.After(last) {
				complain(at, "%s has a later date than the release above", v)
			}
			versions, last = append(versions, v), date
			if !strings.Contains(text, "\n["+v.String()+"]: ") {
				complain(at, "[%s] has no link at the end of the file", v)
			}
		}
	}
	if sections == 0 {
		complain(1, "no section [Unreleased]")
	}
	return append(problems, compare(versions, tags, here, entries)...)
}

// heading parses "## [1.2.3] - 2026-01-31".
func heading(line string) (version, time.Time, error) {
	m := release.FindStringSubmatch(line)
	if m == nil {
		return version{}, time.Time{}, fmt.Errorf("%q is not of the form ## [1.2.3] - 2026-01-31", line)
	}
	var v version
	for i := range v {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return v, time.Time{}, err
		}
		v[i] = n
	}
	date, err := time.Parse(time.DateOnly, m[4])
	return v, date, err
}

// compare compares the releases of the changelog with tags.
func compare(versions []version, tags, here []string, unreleased int) []string {
	if len(tags) == 0 {
		return nil
	}
	var problems []string
	has := func(tag string) bool {
		return slices.ContainsFunc(versions, func(v version) bool { return "v"+v.String() == tag })
	}
	for _, tag := range slices.SortedFunc(slices.Values(tags), cmp.Compare[string]) {
		if !has(tag) {
			problems = append(problems, fmt.Sprintf("the tag %s has no section in CHANGELOG.md", tag))
		}
	}
	for i, v := range versions {
		// The newest section need not have a tag, because the commit that prepares a release adds
		// the section before the release is tagged.
		if i > 0 && !slices.Contains(tags, "v"+v.String()) {
			problems = append(problems, fmt.Sprintf("release %s of CHANGELOG.md has no tag v%s", v, v))
		}
	}
	for _, tag := range here {
		if len(versions) == 0 || "v"+versions[0].String() != tag {
			problems = append(problems, fmt.Sprintf("this commit is %s, which is not the newest release of CHANGELOG.md", tag))
		}
		if unreleased > 0 {
			problems = append(problems, fmt.Sprintf("this commit is %s, and [Unreleased] has %d entries", tag, unreleased))
		}
	}
	return problems
}
