package manifest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/podrun/podrun/problem"
)

// ReadKustomization builds the kustomization of a directory as `kubectl kustomize`
// does, with its default options: no plugins, no Helm, no files outside of the
// directory's bases. The files are bounded as those of Read are. The source is named
// after the directory. When ctx ends, the error wraps its cause.
func ReadKustomization(ctx context.Context, dir string) (Source, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(&boundedFiles{FileSystem: filesys.MakeFsOnDisk(), left: MaxInput}, dir)
		if err != nil {
			done <- result{err: err}
			return
		}
		data, err := built.AsYaml()
		done <- result{data, err}
	}()
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		return Source{}, fmt.Errorf("build the kustomization of %s: %w", shown(dir), context.Cause(ctx))
	}
	if got.err == nil && len(got.data) > MaxInput {
		got.err = fmt.Errorf("it builds more than %d MiB", MaxInput>>20)
	}
	if got.err != nil {
		return Source{}, &problem.Error{Kind: problem.Manifest, Object: "kustomization " + shown(dir), Err: got.err,
			Hint: "check it with 'kubectl kustomize DIR'"}
	}
	return Source{Name: filepath.Join(shown(dir), "(kustomization)"), Data: got.data}, nil
}

// boundedFiles is a file system whose files are read in bounds: regular files of at
// most MaxSource bytes, and MaxInput in all.
type boundedFiles struct {
	filesys.FileSystem
	left int64
}

// ReadFile refuses what is no regular file, or too large.
func (b *boundedFiles) ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("is not a regular file")}
	case info.Size() > MaxSource || info.Size() > b.left:
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("is too large")}
	}
	b.left -= info.Size()
	return b.FileSystem.ReadFile(path)
}
