package main

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	const good = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-01\n\n### Added\n\n- a\n\n## [0.1.0] - 2026-01-01\n\n### Fixed\n\n- b\n\n[0.2.0]: x\n[0.1.0]: x\n"
	for name, tc := range map[string]struct {
		old, new   string // strings to replace in a valid changelog
		tags, here []string
		want       []string // expected problems; empty if there are none
	}{
		"good":              {},
		"without tags":      {tags: nil, here: nil},
		"tagged":            {tags: []string{"v0.1.0", "v0.2.0"}, here: []string{"v0.2.0"}},
		"before the tag":    {tags: []string{"v0.1.0"}},
		"no Unreleased":     {old: "## [Unreleased]\n\n", want: []string{"not [Unreleased]"}},
		"no date":           {old: " - 2026-02-01", want: []string{`"## [0.2.0]" is not of the form`}},
		"no such day":       {old: "2026-02-01", new: "2026-02-31", want: []string{"day out of range"}},
		"order":             {old: "[0.1.0] -", new: "[0.3.0] -", want: []string{"0.3.0 is not before 0.2.0", "[0.3.0] has no link"}},
		"dates":             {old: "2026-01-01", new: "2026-03-01", want: []string{"0.1.0 has a later date"}},
		"no link":           {old: "\n[0.1.0]: x", want: []string{"[0.1.0] has no link"}},
		"group":             {old: "### Fixed", new: "### Bugs", want: []string{`the group "Bugs" is not one of Added, Changed`}},
		"tag of no section": {tags: []string{"v0.1.0", "v0.1.1"}, want: []string{"the tag v0.1.1 has no section"}},
		"section of no tag": {tags: []string{"v0.2.0"}, want: []string{"release 0.1.0 of CHANGELOG.md has no tag"}},
		"old tag here":      {tags: []string{"v0.1.0", "v0.2.0"}, here: []string{"v0.1.0"}, want: []string{"this commit is v0.1.0, which is not the newest"}},
		"unreleased entries": {old: "## [Unreleased]\n\n", new: "## [Unreleased]\n\n### Added\n\n- c\n\n", tags: []string{"v0.1.0", "v0.2.0"}, here: []string{"v0.2.0"},
			want: []string{"[Unreleased] has 1 entries"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(strings.Replace(good, tc.old, tc.new, 1), tc.tags, tc.here)
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}
