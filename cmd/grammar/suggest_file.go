package grammar

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/manifest/input"
)

// maxNames is the number of names in a directory that suggestFile compares with the typed name.
const maxNames = 10000

// SuggestFile completes the hint for a manifest that does not exist. The hint names a file with a
// similar name, or the first directory of the path that does not exist.
func (a *Line) SuggestFile(p *problem.Problem) {
	if p.Reason != input.ReasonUnreadable || p.Message != unix.ENOENT.Error() {
		return
	}
	missing := filepath.Clean(p.File)
	if _, err := os.Lstat(missing); err == nil {
		return // a symbolic link to a file that does not exist
	}
	below := ""
	parent := filepath.Dir(missing)
	for ; isAbsent(parent) && parent != filepath.Dir(parent); parent = filepath.Dir(missing) {
		below = filepath.Join(filepath.Base(missing), below)
		missing = parent
	}
	if like := likeName(parent, filepath.Base(missing)); like != "" {
		meant := filepath.Join(parent, like, below)
		if !isAbsent(meant) {
			p.Hint = "did you mean " + shellword.Quote(meant) + "?" + a.withFile(p.File, meant)
			return
		}
	}
	switch {
	case below == "":
		p.Hint = cmp.Or(a.notFile(p.File), p.Hint)
	case parent == ".":
		p.Hint = "the current directory has no " + missing
	default:
		p.Hint = parent + " exists, but " + missing + " does not"
	}
}

// notFile returns the hint for an argument that cannot be the name of a manifest: the user probably meant a pod,
// an image or the files that a pattern matches. It returns "" if the argument may be a name.
func (a *Line) notFile(name string) string {
	if pattern := strings.ContainsAny(name, "*?["); pattern || len(a.Typed) == 0 || filepath.Ext(name) != "" || strings.Contains(name, "/") {
		if dir := filepath.Dir(name); pattern && !isAbsent(dir) {
			return "no file matches the pattern: use -f " + shellword.Quote(dir) + " to read all manifests of the directory"
		}
		return ""
	}
	word := shellword.Quote(name)
	switch a.Typed[0] {
	case "diff":
		return "name a manifest, for example 'podrun diff " + word + ".yaml'; to print the definition of a pod, run 'podrun get pod " + word + " -o yaml'"
	case "create":
		return "name a manifest with -f; to start a pod from an image, run 'podrun run -d IMAGE'"
	}
	return ""
}

func isAbsent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// likeName returns the name in a directory that the user probably meant, or "". It is the only
// name that differs from the typed one by one letter, or only by its extension, which is one of a
// manifest.
func likeName(dir, name string) string {
	d, err := os.Open(dir)
	if err != nil {
		return ""
	}
	// The directory was only read.
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(maxNames) // no names, no suggestion
	extensions := []string{".yaml", ".yml", ".json"}
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	if ext := filepath.Ext(name); ext != "" && !slices.Contains(extensions, ext) {
		stem = name
	}
	var same []string
	for _, ext := range extensions {
		if slices.Contains(names, stem+ext) {
			same = append(same, stem+ext)
		}
	}
	switch len(same) {
	case 0:
		return ClosestName(name, names)
	case 1:
		return same[0]
	}
	return ""
}

// withFile returns the command line with another file, as the end of a hint. It returns "" if the
// file is not an argument by itself, but for example an entry of a list.
func (a *Line) withFile(name, other string) string {
	words := slices.Clone(a.Typed)
	for i, word := range words {
		if word == "--" {
			break
		}
		for _, flag := range []string{"", "-f", "-f=", "--filename=", "--configmap=", "--secret="} {
			if word == flag+name {
				words[i] = flag + other
				return " 'podrun " + shellword.Join(words) + "'"
			}
		}
	}
	return ""
}
