package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/output"
	"github.com/podrun/podrun/internal/problem"
)

// kustomizers are the commands that build a kustomization, in order of preference. The
// directory is their last argument, after "--".
var kustomizers = [][]string{{"kustomize", "build"}, {"kubectl", "kustomize"}}

// kustomizationFiles are the names that the file of a kustomization can have.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// hasKustomization reports whether a directory has a kustomization. It also returns true if the
// directory cannot be read.
func hasKustomization(dir string) bool {
	return slices.ContainsFunc(kustomizationFiles, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// maxComplaint limits how many bytes of a command's stderr podrun shows.
const maxComplaint = 10 << 10

// ReadKustomization builds the kustomization in a directory with `kustomize build` or `kubectl
// kustomize`, depending on which is installed. It does not use kustomize's own library, which
// would make podrun 10% larger. It reads at most MaxInput bytes. The source is named after the
// directory. If neither program is installed, the error is of kind Usage, and otherwise of kind
// Manifest. If ctx ends, the error wraps the cause.
func ReadKustomization(ctx context.Context, dir string) (Source, error) {
	object := "kustomization " + problem.ShownURL(dir)
	if err := CheckKustomizationDir(object, dir); err != nil {
		return Source{}, err
	}
	words := kustomizer()
	if words == nil {
		return Source{}, &problem.Error{Kind: problem.Usage, Object: object,
			Err:  errors.New("neither kustomize nor kubectl is installed on this host"),
			Hint: "install one of them, or run 'kubectl kustomize DIR' on another machine and pass its output to 'podrun apply -'"}
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	out, complaint := &output.Head{Limit: MaxInput, OnCut: cancel}, &output.Head{Limit: maxComplaint}
	c := exec.CommandContext(inner, words[0], append(words[1:], "--", dir)...)
	c.Stdout = out
	c.Stderr = complaint
	c.WaitDelay = time.Second
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return Source{}, fmt.Errorf("build the %s: %w", object, context.Cause(ctx))
	case out.Cut():
		err = fmt.Errorf("its output is larger than %d MiB", MaxInput>>20)
	case err != nil:
		if text := kustomizeMessage(complaint.String()); text != "" {
			err = errors.New(text)
		}
		err = fmt.Errorf("%s %s: %w", filepath.Base(words[0]), words[1], err)
	}
	if err != nil {
		return Source{}, &problem.Error{Kind: problem.Manifest, Object: object, Err: err,
			Hint: "'" + filepath.Base(words[0]) + " " + words[1] + " " + problem.ShownURL(dir) + "' shows its complete output"}
	}
	return Source{Name: filepath.Join(problem.ShownURL(dir), "(kustomization)"), Data: out.Bytes()}, nil
}

// CheckKustomizationDir returns an error for a directory without a kustomization, for a file, and for a
// path that does not exist. kustomize's messages for these do not contain a fix. It accepts the address
// of a repository: this does not exist as a path, but kustomize can read it. If the address is invalid,
// kustomize reports that.
func CheckKustomizationDir(object, dir string) error {
	e := &problem.Error{Kind: problem.Manifest, Object: object}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isRepository(dir):
		e.Err = errors.New("no such directory")
		e.Hint = "check the path; -k takes a directory with a kustomization.yaml, -f a manifest"
	case err != nil:
		return nil
	case !info.IsDir() && slices.Contains(kustomizationFiles, filepath.Base(dir)):
		e.Err = errors.New("is a file, not a directory")
		e.Hint = "use -k " + problem.ShownURL(filepath.Dir(dir))
	case !info.IsDir():
		e.Err = errors.New("is a file, not a directory")
		e.Hint = "use -f " + problem.ShownURL(dir)
	case !hasKustomization(dir):
		e.Err = errors.New("the directory has no " + strings.Join(kustomizationFiles[:2], ", ") + " or " + kustomizationFiles[2])
		e.Hint = "use -f " + problem.ShownURL(dir) + " to read the manifests of the directory"
	default:
		return nil
	}
	return e
}

// isRepository reports whether kustomize may interpret a path as the address of a Git
// repository.
func isRepository(path string) bool {
	return strings.ContainsAny(path, ":?@") || strings.Contains(path, "//") || strings.HasPrefix(path, "github.com/")
}

// klogFailure matches the line that kubectl logs if a command fails.
var klogFailure = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^E\d{4} .*\] "command failed" err=(".*")$`) })

// kustomizeMessage returns the message in the stderr of kustomize or kubectl, without the header of kubectl's log.
func kustomizeMessage(stderr string) string {
	text := strings.TrimSpace(stderr)
	if m := klogFailure().FindStringSubmatch(text); m != nil {
		if message, err := strconv.Unquote(m[1]); err == nil {
			text = message
		}
	}
	if prefix := "error: "; len(text) > len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		// The text is from kustomize, or from another version of kubectl.
		return text[len(prefix):]
	}
	return text
}

// kustomizer returns the installed program with its subcommand; nil if neither is installed.
func kustomizer() []string {
	for _, words := range kustomizers {
		if path, err := exec.LookPath(words[0]); err == nil {
			return []string{path, words[1]}
		}
	}
	return nil
}
