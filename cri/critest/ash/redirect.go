package ash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// redirect points the streams elsewhere until restore; nil if a file cannot be
// opened, which it has said.
func (sh *shell) redirect(ctx context.Context, redirs []redir) (restore func(), err error) {
	stdin, stdout, stderr := sh.stdin, sh.stdout, sh.stderr
	restore = func() { sh.stdin, sh.stdout, sh.stderr = stdin, stdout, stderr }
	for _, r := range redirs {
		target, err := sh.text(ctx, r.target)
		if err != nil {
			return nil, err
		}
		if err := sh.redirectOne(r, target); err != nil {
			restore()
			fmt.Fprintf(sh.stderr, "%s: %v\n", sh.name, err)
			return nil, nil
		}
	}
	return restore, nil
}

func (sh *shell) redirectOne(r redir, target string) error {
	if r.op == "<" {
		data, err := sh.process.Files.Read(sh.abs(target))
		if err != nil {
			return fmt.Errorf("can't open %s: %v", target, err)
		}
		sh.stdin = bytes.NewReader(data)
		return nil
	}
	w, err := sh.writer(r, target)
	if err != nil {
		return err
	}
	if r.fd == 2 {
		sh.stderr = w
	} else {
		sh.stdout = w
	}
	return nil
}

func (sh *shell) writer(r redir, target string) (io.Writer, error) {
	if r.op == ">&" {
		target = map[string]string{"1": "/dev/stdout", "2": "/dev/stderr"}[target]
	}
	switch target {
	case "":
		return nil, errors.New("bad fd number")
	case "/dev/null":
		return io.Discard, nil
	case "/dev/stdout", "/proc/1/fd/1", "/proc/self/fd/1":
		return sh.stdout, nil
	case "/dev/stderr", "/proc/1/fd/2", "/proc/self/fd/2":
		return sh.stderr, nil
	}
	file := fileWriter{sh.process.Files, sh.abs(target)}
	if err := file.files.Write(file.path, nil, r.op == ">>"); err != nil {
		return nil, fmt.Errorf("can't create %s: %v", target, err)
	}
	return file, nil
}

// fileWriter appends to a file.
type fileWriter struct {
	files Files
	path  string
}

func (f fileWriter) Write(b []byte) (int, error) {
	if err := f.files.Write(f.path, b, true); err != nil {
		return 0, err
	}
	return len(b), nil
}
