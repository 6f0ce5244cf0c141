package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/problem"
)

// maxSource bounds one source, in bytes: an API server takes 3 MiB a request,
// and a stream may hold several objects.
const maxSource = 10 << 20

// ReadOptions are the streams and the client that Read uses.
type ReadOptions struct {
	Stdin      io.Reader    // of "-"; nil has none
	HTTPClient *http.Client // nil: one with a timeout of 30 s; redirects are checked in any case
}

// Read reads what the command line names: a file, a directory (its *.yaml,
// *.yml and *.json in the order of their names, not its subdirectories, nor
// files that begin with a dot), "-" for standard input or an https URL. Every
// name that can't be read is a problem of the *problem.Error; when ctx ends,
// the error wraps its cause instead.
func Read(ctx context.Context, names []string, opts ReadOptions) ([]Source, error) {
	if len(names) == 0 {
		return nil, &problem.Error{Kind: problem.Usage, Err: errors.New("no file is given"), Hint: "name a file, a directory, an https URL, or - for standard input"}
	}
	var sources []Source
	var problems problem.List
	stdin := false
	for _, name := range names {
		if name == "-" && stdin {
			problems = append(problems, problem.Problem{File: name, Reason: "Unreadable", Message: "standard input is named twice", Hint: "name - once"})
			continue
		}
		stdin = stdin || name == "-"
		read, bad := readName(ctx, name, opts)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read %s: %w", shown(name), context.Cause(ctx))
		}
		sources, problems = append(sources, read...), append(problems, bad...)
	}
	return sources, problem.Refuse(problem.Manifest, problems)
}

// readName reads one name of the command line.
func readName(ctx context.Context, name string, opts ReadOptions) ([]Source, problem.List) {
	switch {
	case name == "":
		return nil, unreadable(name, "the name of a file is empty", "")
	case name == "-":
		if opts.Stdin == nil {
			return nil, unreadable(name, "there is no standard input", "")
		}
		return one(readAll(ctx, name, func() (io.ReadCloser, error) { return io.NopCloser(opts.Stdin), nil }))
	case strings.Contains(name, "://"):
		return one(readURL(ctx, name, opts.HTTPClient))
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, unreadable(name, cause(err), fileHint(err))
	case info.IsDir():
		return readDir(ctx, name)
	}
	return one(readFile(ctx, name))
}

// readDir reads the manifests of a directory.
func readDir(ctx context.Context, dir string) ([]Source, problem.List) {
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return nil, unreadable(dir, cause(err), fileHint(err))
	}
	var sources []Source
	var problems problem.List
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			continue
		}
		info, err := os.Stat(path) // a symlink's target counts
		if err != nil {
			problems = append(problems, unreadable(path, cause(err), fileHint(err))...)
			continue
		}
		if info.IsDir() {
			continue
		}
		read, bad := one(readFile(ctx, path))
		sources, problems = append(sources, read...), append(problems, bad...)
	}
	if len(sources) == 0 && len(problems) == 0 {
		return nil, unreadable(dir, "the directory has no manifest", "podrun reads its *.yaml, *.yml and *.json, not its subdirectories; name a file to read another")
	}
	return sources, problems
}

func readFile(ctx context.Context, path string) (Source, *problem.Problem) {
	return readAll(ctx, path, func() (io.ReadCloser, error) { return os.Open(path) })
}

// readAll opens and reads a source of bounded size. Opening or reading a pipe
// may last for ever, so that the end of ctx ends the wait, not the read.
func readAll(ctx context.Context, name string, open func() (io.ReadCloser, error)) (Source, *problem.Problem) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		in, err := open()
		if err != nil {
			done <- result{err: err}
			return
		}
		data, err := io.ReadAll(io.LimitReader(in, maxSource+1))
		done <- result{data, errors.Join(err, in.Close())}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		r.err = context.Cause(ctx)
	}
	switch {
	case r.err != nil:
		return Source{}, &unreadable(name, cause(r.err), fileHint(r.err))[0]
	case len(r.data) > maxSource:
		return Source{}, &unreadable(name, fmt.Sprintf("larger than %d MiB", maxSource>>20), "is it a manifest?")[0]
	}
	return Source{Name: shown(name), Data: r.data}, nil
}

func one(s Source, bad *problem.Problem) ([]Source, problem.List) {
	if bad != nil {
		return nil, problem.List{*bad}
	}
	return []Source{s}, nil
}

func unreadable(name, message, hint string) problem.List {
	return problem.List{{File: shown(name), Reason: "Unreadable", Message: message, Hint: hint}}
}

// cause is an error without the path or URL that it repeats.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

func fileHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the path; - reads standard input"
	case errors.Is(err, fs.ErrPermission):
		return "run podrun as a user who may read it"
	}
	return ""
}
