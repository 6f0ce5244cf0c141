package verifier

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// programName is the name under which containerd runs podrun as its image verifier.
const programName = "podrun-image-verifier"

// programsLink is the name of the symbolic link to the directory of the programs. It is beside the directory that
// containerd reads, which must contain only the verifier.
const programsLink = "image-verifier.d"

// maxDescriptor limits the standard input of Main, in bytes.
const maxDescriptor = 1 << 20

// Invoked reports whether containerd has run this process as its image verifier.
func Invoked(args []string) bool { return len(args) > 0 && filepath.Base(args[0]) == programName }

// Install makes podrun the only program in the directory that containerd reads. program is podrun's path, and programs
// is the directory of the verifiers. Other entries of the directory are removed, because containerd would ask them, too.
func Install(dir, program, programs string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != programName {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := link(programs, filepath.Join(filepath.Dir(dir), programsLink)); err != nil {
		return err
	}
	return link(program, filepath.Join(dir, programName))
}

// link makes path a symbolic link to target, if it is not one. At each moment, there is a link at the path or, at the
// first call, no file.
func link(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	// The temporary file must not be in the directory of the verifiers.
	tmp := filepath.Join(filepath.Dir(filepath.Dir(path)), "."+filepath.Base(path)+".tmp")
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Main implements the interface of containerd's image verifiers. It returns the exit code: 0 only if the image is
// accepted. args are the arguments of the process, with its name.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) int {
	i, err := parse(args[1:], in)
	if err == nil {
		err = verifyFor(ctx, args[0], i)
	}
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	return 0
}

// verifyFor verifies an image for the containerd that has run program.
func verifyFor(ctx context.Context, program string, i Image) error {
	dir, err := os.Readlink(filepath.Join(filepath.Dir(filepath.Dir(program)), programsLink))
	if err != nil {
		return err
	}
	programs, err := Find(dir)
	if err != nil {
		return err
	}
	return programs.Verify(ctx, i)
}

// parse reads the image from the arguments and the standard input of the verifier.
func parse(args []string, in io.Reader) (i Image, err error) {
	flags := flag.NewFlagSet(programName, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&i.Name, "name", "", "")
	flags.StringVar(&i.Digest, "digest", "", "")
	input := flags.String("stdin-media-type", "", "")
	if err := flags.Parse(args); err != nil {
		return i, err
	}
	if *input != mediaType || flags.NArg() > 0 {
		return i, fmt.Errorf("unexpected arguments: %q", args)
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDescriptor))
	if err != nil {
		return i, err
	}
	var d descriptor
	if err := json.Unmarshal(data, &d); err != nil {
		return i, fmt.Errorf("the descriptor: %w", err)
	}
	if d.Digest != i.Digest {
		return i, fmt.Errorf("the digest of the descriptor is %q, not %q", d.Digest, i.Digest)
	}
	i.MediaType, i.Size = d.MediaType, d.Size
	return i, nil
}
