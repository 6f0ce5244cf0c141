package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/container/copytar"
	"github.com/podrun/podrun/internal/output"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
)

// maxTarWords is the maximum number of bytes of tar's stderr that podrun keeps. maxPadding is the number of bytes
// that tar may send after the end of an archive: GNU tar pads the last record, which has 10 KiB by default.
const (
	maxTarWords = 4 << 10
	maxPadding  = 1 << 20
)

// CopyOptions are the options of a copy.
type CopyOptions struct {
	// NoPreserve makes the container's user the owner of the copied files, and applies the user's
	// umask to their modes.
	NoPreserve bool
	// Warn is called for each file that is skipped.
	Warn func(string)
}

// CopyFrom copies a file or directory out of a container with the container's tar. The local path
// in "to" is the path of the copy, or an existing directory in which the copy is created. If the
// source is a symbolic link, CopyFrom copies the link's target, like `docker cp -L`. It skips the
// links in a directory. If archive is not nil, it receives the tar stream instead. The error is
// of kind Failed if the container has no tar, or tar fails.
func CopyFrom(ctx context.Context, n *node.Node, t Target, from, to string, archive io.Writer, o CopyOptions) error {
	dir, name := path.Split(path.Clean(from))
	if name == "" || name == "." || name == ".." {
		dir, name = from, "."
	}
	if dir == "" {
		dir = "."
	}
	command := func(flags, dir, name string) []string { return []string{"tar", flags, "-", "-C", dir, "./" + name} }
	if archive != nil {
		return explainTar(ctx, n, t, tar(ctx, n, t, command("cf", dir, name), Streams{Out: archive}), from, "-e")
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() && name != "." {
		to = filepath.Join(to, name)
	}
	err := unpackFrom(ctx, n, t, command("cf", dir, name), from, name, to, o)
	if !errors.Is(err, copytar.ErrLink) {
		return err
	}
	into, err := isDir(ctx, n, t, path.Clean(from))
	if err != nil {
		return err
	}
	if into {
		return unpackFrom(ctx, n, t, command("cf", path.Clean(from), "."), from, ".", to, o)
	}
	return unpackFrom(ctx, n, t, command("chf", dir, name), from, name, to, o)
}

// unpackFrom runs a tar command in a container. It unpacks the entry called name from the command's
// output.
func unpackFrom(ctx context.Context, n *node.Node, t Target, command []string, from, name, to string, o CopyOptions) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := tar(ctx, n, t, command, Streams{Out: w})
		done <- err
		w.CloseWithError(err)
	}()
	err := copytar.Unpack(ctx, r, name, to, o.Warn)
	if err != nil && !errors.Is(err, copytar.ErrEmpty) {
		if len(done) > 0 { // the stream ended because tar exited
			if failed := <-done; failed != nil {
				return explainTar(parent, n, t, failed, from, "-e")
			}
			return t.copyFault(err)
		}
		cancel(err)
		r.CloseWithError(err)
		<-done
		return t.copyFault(err)
	}
	// Tar pads its output. If tar fails, the error is the one from done.
	if n, _ := io.CopyN(io.Discard, r, maxPadding+1); n > maxPadding {
		endless := errors.New("tar sent data after the end of the archive")
		cancel(endless)
		r.CloseWithError(endless)
		<-done
		return t.copyFault(endless)
	}
	if failed := <-done; failed != nil {
		return explainTar(parent, n, t, failed, from, "-e")
	}
	return t.copyFault(err)
}

// CopyTo copies a local file or directory into a container with the container's tar. The path
// in "to" is an existing directory of the container in which the copy is created, or the path of
// the copy, whose parent directory must exist. If archive is not nil, CopyTo ignores "from" and
// unpacks the tar stream in archive into the directory "to". The errors are those of
// CopyFrom.
func CopyTo(ctx context.Context, n *node.Node, t Target, from, to string, archive io.Reader, o CopyOptions) error {
	flags := []string{"tar", "xmf", "-"}
	if o.NoPreserve {
		flags = []string{"tar", "--no-same-permissions", "--no-same-owner", "-xmf", "-"}
	}
	if archive != nil {
		return explainTar(ctx, n, t, tar(ctx, n, t, append(flags, "-C", to), Streams{In: archive, Out: io.Discard}), to, "-d")
	}
	info, err := os.Stat(from)
	if err != nil {
		return t.copyFault(fmt.Errorf("on this host: %w", err))
	}
	if info.IsDir() {
		from = filepath.Clean(from)
	}
	into, err := isDir(ctx, n, t, to)
	if err != nil {
		return err
	}
	dir, name := path.Split(path.Clean(to))
	if into {
		abs, err := filepath.Abs(from)
		if err != nil {
			return t.copyFault(err)
		}
		dir, name = to, filepath.Base(abs)
	}
	if dir == "" {
		dir = "."
	}
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := copytar.Pack(ctx, w, from, "./"+name, o.Warn)
		w.CloseWithError(err)
		if err != nil {
			cancel(err)
		}
		packed <- err
	}()
	err = tar(ctx, n, t, append(flags, "-C", dir), Streams{In: r, Out: io.Discard})
	r.CloseWithError(io.ErrClosedPipe) // tar may not have read the padding
	select {
	case why := <-packed:
		if why != nil && !errors.Is(why, io.ErrClosedPipe) {
			return t.copyFault(why)
		}
	case <-parent.Done(): // Pack may be blocked on a file system that hangs
	}
	return explainTar(parent, n, t, err, dir, "-d")
}

// errTar is the error if tar ran and failed.
var errTar = errors.New("tar exited with")

// explainTar replaces tar's error if tar failed because the container does not have the file or directory. The
// argument test is the operator of test(1): -e or -d.
func explainTar(ctx context.Context, n *node.Node, t Target, err error, name, test string) error {
	if !errors.Is(err, errTar) {
		return err
	}
	code, failed := Exec(ctx, n, t, ExecOptions{Command: []string{"test", test, name}, Streams: Streams{Out: io.Discard, Err: io.Discard}})
	if failed != nil || code != 1 { // the path exists, or the image has no test command
		return err
	}
	fault := &problem.Error{Kind: problem.Failed, Object: t.object(), Op: "copy"}
	in := t.Pod.Args() + " -c " + t.Container + " -- "
	if test == "-d" {
		name = path.Clean(name)
		fault.Err = fmt.Errorf("the container has no directory %s", name)
		fault.Hint = "create it: 'podrun exec " + in + "mkdir -p " + name + "'"
		return fault
	}
	fault.Err = fmt.Errorf("the container has no file or directory %s", name)
	fault.Hint = "list the files: 'podrun exec " + in + "ls -a " + path.Dir(path.Clean(name)) + "'"
	return fault
}

// isDir reports whether a path is a directory in the container.
func isDir(ctx context.Context, n *node.Node, t Target, name string) (bool, error) {
	code, err := Exec(ctx, n, t, ExecOptions{Command: []string{"test", "-d", name}, Streams: Streams{Out: io.Discard, Err: io.Discard}})
	if code == ExecNotFound {
		return strings.HasSuffix(name, "/"), nil // the image has no test command: tar reports the problem
	}
	return code == 0, err
}

// tar runs tar in the container.
func tar(ctx context.Context, n *node.Node, t Target, command []string, s Streams) error {
	words := &output.Head{Limit: maxTarWords}
	s.Err = words
	code, err := Exec(ctx, n, t, ExecOptions{Command: command, Streams: s})
	switch {
	case err != nil && code == ExecNotFound:
		return &problem.Error{Kind: problem.Failed, Object: t.object(), Op: "copy",
			Err:  errors.New("its image has no tar, which podrun cp requires"),
			Hint: "copy a single file with 'podrun exec -i " + t.Pod.Name + " -- sh -c \"cat > FILE\" < FILE', or mount a volume"}
	case err != nil:
		return err
	case code != 0:
		return t.copyFault(fmt.Errorf("%w %d: %s", errTar, code, bytes.TrimSpace(words.Bytes())))
	}
	return nil
}

func (t Target) copyFault(err error) error {
	if err == nil {
		return nil
	}
	return &problem.Error{Kind: problem.Failed, Object: t.object(), Op: "copy", Err: err}
}
