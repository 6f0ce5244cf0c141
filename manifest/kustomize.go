package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/output"
	"github.com/podrun/podrun/internal/problem"
)

// kustomizers are the commands that build a kustomization, in order of preference. The
// directory is their last argument.
var kustomizers = [][]string{{"kustomize", "build"}, {"kubectl", "kustomize"}}

// kustomizationFiles are the names under which kustomize looks for a kustomization.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// hasKustomization reports whether a directory has a kustomization, or cannot be read.
func hasKustomization(dir string) bool {
	return slices.ContainsFunc(kustomizationFiles, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// maxComplaint limits how much of a command's stderr is shown, in bytes.
const maxComplaint = 10 << 10

// ReadKustomization builds the kustomization in a directory with `kustomize build` or
// `kubectl kustomize`, whichever is installed: kustomize's own library would make podrun 10%
// larger. It reads at most MaxInput bytes. The source is named after the directory. The
// error is of kind Usage if neither program is installed, otherwise of kind Manifest; if ctx
// ends, it wraps the cause.
func ReadKustomization(ctx context.Context, dir string) (Source, error) {
	object := "kustomization " + problem.ShownURL(dir)
	if info, err := os.Stat(dir); err == nil && info.IsDir() && !hasKustomization(dir) {
		return Source{}, &problem.Error{Kind: problem.Manifest, Object: object,
			Err:  errors.New("the directory has no " + strings.Join(kustomizationFiles[:2], ", ") + " or " + kustomizationFiles[2]),
			Hint: "use -f to read the manifests of a directory"}
	}
	words := kustomizer()
	if words == nil {
		return Source{}, &problem.Error{Kind: problem.Usage, Object: object, Err: errors.New("neither kustomize nor kubectl is installed on this host"),
			Hint: "install one of them, or run 'kubectl kustomize DIR' on another machine and pass its output to 'podrun apply -'"}
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	out, complaint := &output.Head{Limit: MaxInput, OnCut: cancel}, &output.Head{Limit: maxComplaint}
	c := exec.CommandContext(inner, words[0], append(words[1:], dir)...)
	c.Stdout, c.Stderr, c.WaitDelay = out, complaint, time.Second
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return Source{}, fmt.Errorf("build the %s: %w", object, context.Cause(ctx))
	case out.Cut():
		err = fmt.Errorf("its output is larger than %d MiB", MaxInput>>20)
	case err != nil:
		if text := strings.TrimSpace(complaint.String()); text != "" {
			err = errors.New(text)
		}
		err = fmt.Errorf("%s %s: %w", filepath.Base(words[0]), words[1], err)
	}
	if err != nil {
		return Source{}, &problem.Error{Kind: problem.Manifest, Object: object, Err: err}
	}
	return Source{Name: filepath.Join(problem.ShownURL(dir), "(kustomization)"), Data: out.Bytes()}, nil
}

// kustomizer returns the installed program with its subcommand, or nil if there is none.
func kustomizer() []string {
	for _, words := range kustomizers {
		if path, err := exec.LookPath(words[0]); err == nil {
			return []string{path, words[1]}
		}
	}
	return nil
}
