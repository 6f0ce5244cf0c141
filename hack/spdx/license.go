package spdx

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// ReadLicenses adds the license files of a package to texts: those of its directory and of the
// parents of the directory, up to the root of its module. The keys are paths relative to root.
func ReadLicenses(texts map[string]string, root, dir string) error {
	for ; root != "" && (dir == root || strings.HasPrefix(dir, root+string(filepath.Separator))); dir = filepath.Dir(dir) {
		if err := readTexts(texts, root, dir); err != nil {
			return err
		}
	}
	return nil
}

func readTexts(texts map[string]string, root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !statesLicense(e.Name()) {
			continue
		}
		name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		texts[name] = string(bytes.TrimSpace(text))
	}
	return nil
}

// statesLicense reports whether name is the name of a license file. It excludes LICENSE.docs,
// which is the license of a module's documentation.
func statesLicense(name string) bool {
	upper := strings.ToUpper(name)
	if strings.HasSuffix(upper, ".GO") || strings.HasSuffix(upper, ".DOCS") {
		return false
	}
	for _, word := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"} {
		if strings.HasPrefix(upper, word) {
			return true
		}
	}
	return false
}

// Licenses returns the SPDX IDs of a module's texts, in order, or nil if the license is unknown.
func Licenses(texts map[string]string) []string {
	ids := map[string]bool{}
	for name, text := range texts {
		if base := strings.ToUpper(filepath.Base(name)); strings.HasPrefix(base, "NOTICE") || strings.HasPrefix(base, "PATENTS") {
			continue
		}
		for _, match := range licensecheck.Scan([]byte(text)).Match {
			if !match.IsURL {
				ids[match.ID] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Expression returns the SPDX expression of several licenses.
func Expression(ids []string) string { return strings.Join(ids, " AND ") }
