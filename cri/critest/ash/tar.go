package ash

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
)

// pack implements `tar cf - -C DIR NAME`. unpack implements `tar xmf - -C DIR`, which podrun cp
// runs.
func pack(ctx context.Context, sh *shell, args []string) (int, error) {
	switch {
	case len(args) == 5 && args[0] == "cf" && args[1] == "-" && args[2] == "-C":
		out := tar.NewWriter(sh.stdout)
		err := sh.pack(out, sh.abs(args[3]), args[4])
		if err = errors.Join(err, out.Close()); err != nil {
			return sh.complain(1, "tar: %v", err)
		}
		return 0, nil
	case len(args) == 4 && args[0] == "xmf" && args[1] == "-" && args[2] == "-C":
		return sh.unpack(ctx, sh.abs(args[3]))
	}
	return sh.complain(1, "tar: the options %q are not supported", args)
}

func (sh *shell) pack(out *tar.Writer, dir, name string) error {
	at := path.Join(dir, name)
	switch sh.process.Files.Kind(at) {
	case 'f':
		data, err := sh.process.Files.Read(at)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	case 'd':
		if err := out.WriteHeader(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			return err
		}
		names, err := sh.process.Files.List(at)
		for _, n := range names {
			err = errors.Join(err, sh.pack(out, dir, name+"/"+n))
		}
		return err
	}
	return errors.New(name + ": No such file or directory")
}

func (sh *shell) unpack(ctx context.Context, dir string) (int, error) {
	data, err := sh.input(ctx, "-")
	if err != nil {
		return 1, err
	}
	if sh.process.Files.Kind(dir) != 'd' {
		return sh.complain(1, "tar: can't change directory to '%s': No such file or directory", dir)
	}
	in := tar.NewReader(bytes.NewReader(data))
	for {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(in)
		}
		at := ""
		if err == nil {
			at = path.Join(dir, entry.Name)
		}
		switch {
		case err != nil:
		case entry.Typeflag == tar.TypeDir && sh.process.Files.Kind(at) != 'd':
			err = sh.process.Files.MakeDir(at)
		case entry.Typeflag == tar.TypeReg:
			err = sh.process.Files.Write(at, content, false)
		}
		if err != nil {
			return sh.complain(1, "tar: %v", err)
		}
	}
}
