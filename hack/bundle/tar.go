package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/podrun/podrun/embedded/archive"
)

// window is the window size of the compression in bytes. Decompression must allocate this much
// memory. A window of twice this size would only reduce the archive from 18 MB to 17.5 MB.
const window = 32 << 20

// order is the order of the archive's directories. The files that describe the archive are first,
// so that a reader need not decompress much to read them. containerd, the largest file, is last, so
// that all other files are within one window.
var order = []string{archive.Sums, "share/", "images/", "cni/", "bin/podrun-", "bin/runc", "bin/containerd-shim", "bin/"}

func rank(name string) int {
	return slices.IndexFunc(order, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// compress packs files (a map of names to contents) into a reproducible tar archive and compresses it.
// The result digest is the SHA-256 digest of packed in hex. The result unpacked is the size of the tar
// archive in bytes.
func compress(files map[string][]byte) (packed []byte, digest string, unpacked int64, err error) {
	names := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	plain, err := tarOf(names, files)
	if err != nil {
		return nil, "", 0, err
	}
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return nil, "", 0, err
	}
	if _, err := z.Write(plain); err != nil {
		return nil, "", 0, err
	}
	if err := z.Close(); err != nil {
		return nil, "", 0, err
	}
	return out.Bytes(), digestOf(out.Bytes()), int64(len(plain)), nil
}

// tarOf packs files in the order of names. Files in bin and cni are executable.
func tarOf(names []string, files map[string][]byte) ([]byte, error) {
	var entries []entry
	for _, name := range names {
		mode := int64(0o644)
		if strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "cni/") {
			mode = 0o755
		}
		entries = append(entries, entry{name, mode, files[name]})
	}
	return plainTar(entries...)
}

// sums lists the SHA-256 digest of each file, in the format of sha256sum.
func sums(files map[string][]byte) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	return out.Bytes()
}

type entry struct {
	name    string
	mode    int64
	content []byte
}

// plainTar returns a tar archive without timestamps and owners.
func plainTar(entries ...entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
