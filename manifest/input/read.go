package input

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

	"github.com/podrun/podrun/internal/problem"
)

// Limits on the input. An API server accepts 3 MiB per request, and a stream may contain
// several objects. MaxSource is also the kubelet's limit for a manifest file (maxConfigLength
// in pkg/kubelet/config).
const (
	MaxSource = 10 << 20 // bytes of one file, stream or response
	// bytes of the whole input of a command, or of one manifest directory of podrun serve
	MaxInput = 32 << 20
	MaxFiles = 10000 // manifests in one directory
)

// ReadOptions are the streams and the client that Read uses.
type ReadOptions struct {
	Stdin     io.Reader // input for "-"; nil if there is none
	EmptyDirs bool      // accept a directory without manifests
	// nil means a client with a timeout of 30 s; Read always checks redirects
	HTTPClient *http.Client
}

// Read reads the arguments of the command line. Each is a file, a directory, "-" for standard
// input, or an https URL. In a directory, it reads *.yaml, *.yml and *.json in the order of
// their names. It omits subdirectories and files whose names begin with a dot. A file may be a
// FIFO, such as a shell's <(command). The *problem.Error contains a problem for every argument
// that Read cannot read. If ctx ends, the error wraps the cause instead.
func Read(ctx context.Context, names []string, opts ReadOptions) ([]Source, error) {
	if len(names) == 0 {
		return nil, &problem.Error{Kind: problem.Usage, Err: errors.New("no file was specified"),
			Hint: "specify a file, a directory, an https URL, or - for standard input"}
	}
	var sources []Source
	var problems problem.List
	r := &reader{ReadOptions: opts, left: MaxInput}
	stdin := false
	for _, name := range names {
		if name == "-" && stdin {
			problems = append(problems, problem.Problem{File: name, Reason: ReasonUnreadable,
				Message: "standard input is specified twice", Hint: "specify - once"})
			continue
		}
		stdin = stdin || name == "-"
		read, bad := r.name(ctx, name)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read %s: %w", problem.ShownURL(name), context.Cause(ctx))
		}
		sources, problems = append(sources, read...), append(problems, bad...)
	}
	return sources, problem.Refuse(problem.Manifest, problems)
}

// reader reads the sources of one command.
type reader struct {
	ReadOptions
	left int64 // the part of MaxInput that remains, in bytes
}

// name reads one argument of the command line.
func (r *reader) name(ctx context.Context, name string) ([]Source, problem.List) {
	switch {
	case name == "":
		return nil, unreadable(name, "a file name is empty", "name a file, a directory or - for standard input; a variable in the command line may be empty")
	case name == "-":
		if r.Stdin == nil {
			return nil, unreadable(name, "there is no standard input", "")
		}
		return one(r.readSource(ctx, name, func() (io.ReadCloser, error) { return io.NopCloser(r.Stdin), nil }))
	case strings.Contains(name, "://"):
		return one(r.url(ctx, name))
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, problem.List{failed(name, err)}
	case info.IsDir():
		return r.dir(ctx, name)
	}
	return one(r.file(ctx, name))
}

// dir reads the manifests of a directory.
func (r *reader) dir(ctx context.Context, dir string) ([]Source, problem.List) {
	names, err := manifestNames(ctx, dir)
	if err != nil {
		return nil, problem.List{failed(dir, err)}
	}
	var sources []Source
	var problems problem.List
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path) // follow symlinks
		if err != nil {
			problems = append(problems, failed(path, err))
			continue
		}
		if info.IsDir() {
			continue
		}
		read, bad := one(r.file(ctx, path))
		sources, problems = append(sources, read...), append(problems, bad...)
		if ctx.Err() != nil || r.left <= 0 {
			return sources, problems
		}
	}
	if len(sources) == 0 && len(problems) == 0 && !r.EmptyDirs {
		return nil, unreadable(dir, "the directory has no manifest", "podrun reads the *.yaml, *.yml and *.json files of the directory, but not of subdirectories; specify other files by name")
	}
	return sources, problems
}

// manifestNames returns the names of the manifests in a directory, sorted. It reads the
// directory in batches, because it may contain millions of files.
func manifestNames(ctx context.Context, dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var names []string
	for ctx.Err() == nil {
		more, err := d.Readdirnames(1024)
		for _, name := range more {
			if !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
				names = append(names, name)
			}
		}
		if len(names) > MaxFiles {
			return nil, fmt.Errorf("the directory has more than %d manifests", MaxFiles)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, ctx.Err()
}

func (r *reader) file(ctx context.Context, path string) (Source, *problem.Problem) {
	return r.readSource(ctx, path, func() (io.ReadCloser, error) { return os.Open(path) })
}

// readSource opens and reads a source of limited size. Opening or reading a pipe may block forever.
// Therefore, readSource returns when ctx ends, and the read continues in the background.
func (r *reader) readSource(ctx context.Context, name string, open func() (io.ReadCloser, error)) (Source, *problem.Problem) {
	type result struct {
		data []byte
		err  error
	}
	limit := min(MaxSource, r.left)
	done := make(chan result, 1)
	go func() {
		in, err := open()
		if err != nil {
			done <- result{err: err}
			return
		}
		data, err := io.ReadAll(io.LimitReader(in, limit+1))
		done <- result{data, errors.Join(err, in.Close())}
	}()
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	size := int64(len(got.data))
	r.left -= size
	switch {
	case got.err != nil:
		bad := failed(name, got.err)
		return Source{}, &bad
	case size > MaxSource:
		return Source{}, &unreadable(name, fmt.Sprintf("larger than %d MiB", MaxSource>>20), "is it a manifest?")[0]
	case r.left < 0:
		return Source{}, &unreadable(name, fmt.Sprintf("this file makes the input larger than %d MiB", MaxInput>>20), "apply fewer files at a time")[0]
	}
	return Source{Name: problem.ShownURL(name), Data: got.data}, nil
}

func one(s Source, bad *problem.Problem) ([]Source, problem.List) {
	if bad != nil {
		return nil, problem.List{*bad}
	}
	return []Source{s}, nil
}

// ReasonUnreadable is the reason of a problem for a file that could not be read.
const ReasonUnreadable = "Unreadable"

func unreadable(name, message, hint string) problem.List {
	return problem.List{{File: problem.ShownURL(name), Reason: ReasonUnreadable, Message: message, Hint: hint}}
}

// failed returns the problem of a file that could not be opened or read. If the host lacks a
// resource, the problem says so, because the file is not the cause.
func failed(name string, err error) problem.Problem {
	p := unreadable(name, cause(err), fileHint(err))[0]
	if problem.Exhausted(err) {
		p.Kind = problem.Runtime
		p.Hint = "increase the limit of open files (ulimit -n), or free memory on this host"
	}
	return p
}

// cause returns the text of an error without the path, because the problem already names the
// path.
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
