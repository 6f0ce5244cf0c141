package grammar

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
)

// NamesManifest reports whether the first argument of run names a manifest rather than an
// image. If the name is probably that of a misspelled file, it counts as a manifest, because
// podrun must not pull it.
func NamesManifest(word string) bool {
	if _, err := os.Stat(word); err == nil || LooksLikeFile(word) || strings.Contains(word, "://") || strings.ContainsAny(word, "*?[") {
		return true
	}
	if _, err := reference.ParseNormalizedNamed(word); err != nil {
		return true
	}
	return hasLikelyEnding(word) || likelyFile(word) != ""
}

// hasLikelyEnding reports whether a word ends in a misspelled .yaml, .yml or .json.
func hasLikelyEnding(word string) bool {
	ending := strings.TrimPrefix(filepath.Ext(word), ".")
	return slices.ContainsFunc([]string{"yaml", "yml", "json"}, func(e string) bool {
		return len(ending) >= 3 && ending[0] == e[0] && isOneEdit(ending, e)
	})
}

// likelyFile returns the manifest that the user probably meant by the name of a file that does
// not exist: a manifest in the same directory with a similar name, or "". A name with a tag or
// a digest is the name of an image.
func likelyFile(word string) string {
	dir, base := filepath.Split(word)
	if strings.ContainsAny(base, ":@") {
		return ""
	}
	d, err := os.Open(filepath.Clean("./" + dir))
	if err != nil {
		return ""
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxSiblings) // dir may be a file, which has no entries
	slices.Sort(names)
	var manifests []string
	for _, name := range names {
		switch stem, isManifest := withoutManifestEnding(name); {
		case isManifest && (stem == base || stem+"." == base):
			return dir + name
		case isManifest:
			manifests = append(manifests, name, stem)
		}
	}
	if like := ClosestName(base, manifests); like != "" {
		return dir + like
	}
	return ""
}

// withoutManifestEnding returns a file name without its extension, and reports whether the
// extension is that of a manifest.
func withoutManifestEnding(name string) (stem string, ok bool) {
	ending := filepath.Ext(name)
	return strings.TrimSuffix(name, ending), slices.Contains([]string{".yaml", ".yml", ".json"}, ending)
}

// Misspelled returns the error for a word that is probably the misspelled name of a file,
// although it could also be an image.
func Misspelled(word string) error {
	if _, err := os.Stat(word); err == nil || LooksLikeFile(word) {
		return nil
	}
	noFile := "no such file or directory"
	switch like := likelyFile(word); {
	case like != "":
		noFile += " (did you mean " + shellword.Quote(like) + "?)"
	case !hasLikelyEnding(word):
		return nil
	}
	return &problem.Error{Kind: problem.Manifest, Object: shellword.Quote(word), Err: errors.New(noFile),
		Hint: "to run the image of this name, add a tag: 'podrun run " + shellword.Quote(word+":latest") + "'"}
}

// maxSiblings is the maximum number of files that likelyFile compares with a name.
const maxSiblings = 1000
