package embedded

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
)

// Archive is the runtime in the binary.
type Archive struct {
	Digest   string // SHA-256 digest of the compressed archive
	Unpacked int64  // size of its files in bytes
	// Reader returns the compressed archive, Tar the files in it, and File one of these files, up
	// to limit bytes.
	Reader func() io.Reader
	Tar    func() (io.ReadCloser, error)
	File   func(name string, limit int64) ([]byte, error)
}

// Limits of an archive.
const (
	maxUnpacked = 1 << 30 // bytes of all files
	maxFiles    = 256
	// number of bytes that containerd uses after its start
	headroom = 16 << 20
)

// sumsFile is the first file of an archive. It contains the digests of all other files.
const sumsFile = "SHA256SUMS"

// A temporary directory is named unpackPrefix, digest, "-" and a random number. place moves the directory that
// it replaces to the same name with brokenSuffix. Because these directories are not nested, the path of a
// process that still runs a program from one of them has the digest, regardless of later repairs (archiveOf).
const (
	unpackPrefix = ".unpack-"
	brokenSuffix = ".broken"
)

// Unpack extracts an archive into its directory, unless the directory is already complete. The
// caller must hold the layout's lock. The directory has a temporary name until Unpack has
// verified all digests and all files are on disk. Unpack also removes the temporary directories
// of podrun processes that were killed.
func Unpack(ctx context.Context, l Layout, a Archive) error {
	old, err := hostfile.Entries(l.Dir(), unpackPrefix, "")
	for _, dir := range old {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return unpackFailed(a.Digest, err)
	}
	if err := verifyAgainst(ctx, l, a); err == nil {
		return nil
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := CheckHost(ctx, l, a.Unpacked+headroom); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(l.Dir(), unpackPrefix+a.Digest+"-")
	if err == nil {
		err = a.unpackTo(ctx, tmp)
	}
	if err == nil {
		err = place(tmp, l.Unpacked(a.Digest))
	}
	if err != nil {
		return unpackFailed(a.Digest, errors.Join(err, os.RemoveAll(tmp)))
	}
	return nil
}

func unpackFailed(digest string, err error) error {
	hint := ""
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		hint = "free space, or set a directory on another file system with --root-dir"
	}
	return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime " + short(digest), Op: "unpack it", Err: err, Hint: hint}
}

// short returns the beginning of a digest, for messages.
func short(digest string) string { return digest[:min(12, len(digest))] }

// place renames a directory to its final name. If an incomplete directory has this name, place
// replaces it. Processes that run programs of the old directory keep their files.
func place(tmp, to string) error {
	if err := unix.Chmod(tmp, 0o755); err != nil {
		return err
	}
	// If podrun is killed before the removal, or the removal fails, the next Unpack removes this directory.
	broken := tmp + brokenSuffix
	defer os.RemoveAll(broken)
	if err := os.Rename(to, broken); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// unpackTo writes the files to a directory, verifies their digests and the digest of the
// archive, and syncs the files.
func (a Archive) unpackTo(ctx context.Context, dir string) error {
	var g errgroup.Group
	g.SetLimit(8)
	g.Go(func() error {
		sum := sha256.New()
		if _, err := io.Copy(sum, a.Reader()); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != a.Digest {
			return fmt.Errorf("its SHA-256 digest is %s: this podrun binary is damaged", got)
		}
		return nil
	})
	files, err := a.Tar()
	if err != nil {
		return errors.Join(err, g.Wait())
	}
	defer files.Close()
	err = writeFiles(ctx, tar.NewReader(files), dir, &g)
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	return syncTree(dir)
}

// writeFiles writes each file, and verifies it with the digests in the first file.
func writeFiles(ctx context.Context, from *tar.Reader, dir string, g *errgroup.Group) error {
	var sums map[string]string
	var total int64
	seen := map[string]bool{}
	for {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if h.Typeflag == tar.TypeDir && cleanPath(name) {
			continue
		}
		total += h.Size
		if h.Typeflag != tar.TypeReg || !cleanPath(name) || seen[name] || len(seen) >= maxFiles || total > maxUnpacked {
			return fmt.Errorf("unexpected entry %.100q in the archive", h.Name)
		}
		seen[name] = true
		if sums == nil {
			if sums, err = takeSums(from, name, dir); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(from, filepath.Join(dir, name), sums[name], h.FileInfo().Mode(), g); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name := range sums {
		if !seen[name] {
			return fmt.Errorf("%s is not in the archive", name)
		}
	}
	return nil
}

// takeSums parses and writes the digests.
func takeSums(from io.Reader, name, dir string) (map[string]string, error) {
	if name != sumsFile {
		return nil, fmt.Errorf("the archive begins with %.100q, not with %s", name, sumsFile)
	}
	data, err := io.ReadAll(io.LimitReader(from, maxRecord))
	if err != nil {
		return nil, err
	}
	sums, err := parseSums(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sumsFile, err)
	}
	return sums, os.WriteFile(filepath.Join(dir, sumsFile), data, 0o644)
}

// writeFile writes a file and verifies its digest. It syncs the file while the next file is
// written.
func writeFile(from io.Reader, path, want string, mode fs.FileMode, g *errgroup.Group) error {
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), from)
	if err == nil {
		// Do this regardless of the umask.
		err = f.Chmod(perm)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != want {
		err = fmt.Errorf("its SHA-256 digest is %s, want %s", got, want)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	g.Go(func() error { return errors.Join(f.Sync(), f.Close()) })
	return nil
}

// syncTree makes the names of files durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return errors.Join(os.Chmod(path, 0o755), syncDir(path))
	})
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// verifyAgainst verifies an unpacked archive with the digests in the archive itself, because
// the unpacked list of digests may have been changed together with the files.
func verifyAgainst(ctx context.Context, l Layout, a Archive) error {
	dir := l.Unpacked(a.Digest)
	have, err := hostfile.ReadNoFollow(ctx, filepath.Join(dir, sumsFile), maxRecord)
	if err != nil {
		return err
	}
	files, err := a.Tar()
	if err != nil {
		return err
	}
	defer files.Close()
	t := tar.NewReader(files)
	if _, err := t.Next(); err != nil {
		return err
	}
	if want, err := io.ReadAll(io.LimitReader(t, maxRecord)); err != nil || !bytes.Equal(have, want) {
		return errors.Join(err, errors.New("the list of files differs from the one in the archive"))
	}
	return Verify(ctx, l, a.Digest)
}

// Verify compares the files of an unpacked archive with their digests. The error, of kind
// Runtime, names the first file that differs.
func Verify(ctx context.Context, l Layout, digest string) error {
	dir := l.Unpacked(digest)
	fail := func(err error) error {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime " + short(digest), Op: "verify " + dir, Err: err, Hint: "run the podrun-bundle that contains this version, to unpack the runtime again"}
	}
	data, err := hostfile.ReadNoFollow(ctx, filepath.Join(dir, sumsFile), maxRecord)
	if err != nil {
		return fail(err)
	}
	sums, err := parseSums(data)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", sumsFile, err))
	}
	var g errgroup.Group
	g.SetLimit(4)
	for name, want := range sums {
		g.Go(func() error {
			got, err := digestOf(filepath.Join(dir, name))
			if err == nil && got != want {
				err = fmt.Errorf("%s has SHA-256 digest %s, want %s", name, got, want)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fail(err)
	}
	return nil
}

// VerifyPrograms is Verify for the programs that start the namespaces of an ordinary user.
func VerifyPrograms(ctx context.Context, l Layout, digest string) error {
	dir := l.Unpacked(digest)
	data, err := hostfile.ReadNoFollow(ctx, filepath.Join(dir, sumsFile), maxRecord)
	if err != nil {
		return err
	}
	sums, err := parseSums(data)
	if err != nil {
		return err
	}
	for _, name := range []string{"bin/" + rootlessProgram, "bin/podrun-enter"} {
		if got, err := digestOf(filepath.Join(dir, name)); err != nil || got != sums[name] {
			return errors.Join(err, fmt.Errorf("%s is damaged", name))
		}
	}
	return nil
}

func digestOf(path string) (string, error) {
	f, err := hostfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
