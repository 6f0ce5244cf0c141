package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/serve/source/signature"
)

// artifactScheme is the beginning of the name of a source that is an artifact in a registry.
const artifactScheme = "oci://"

// IsArtifact reports whether a source is an artifact in a registry.
func IsArtifact(name string) bool { return strings.HasPrefix(name, artifactScheme) }

// Limits of artifacts. The sizes are in bytes.
const (
	maxArtifactManifest = 1 << 20
	maxLayers           = 64
	maxArtifactEntries  = 1000
	// maxUnpacked limits the uncompressed archive, which contains more than the manifests. The manifests are limited
	// like those of a URL.
	maxUnpacked = input.MaxInput
)

// artifactFile is a file of an artifact: a manifest, the signed list or its signature.
type artifactFile struct {
	name string
	data []byte
}

// artifactFiles are the files of an artifact that podrun reads.
type artifactFiles struct {
	list []artifactFile
	size int64
}

// add adds a file. It ignores files that a manifest directory would ignore, too.
func (f *artifactFiles) add(name string, read func() ([]byte, error)) error {
	switch {
	case !signature.IsFileName(name):
		return fmt.Errorf("%s is not the name of a file", strconv.Quote(name))
	case kindOfName(name) != manifestName && name != sumsFile && name != sumsFile+signatureSuffix:
		return nil
	case slices.ContainsFunc(f.list, func(o artifactFile) bool { return o.name == name }):
		return fmt.Errorf("the file %s exists twice", name)
	}
	data, err := read()
	if err != nil {
		return err
	}
	if f.size += int64(len(data)); f.size > maxArtifactFiles {
		return hostfile.TooLarge(input.MaxSource)
	}
	f.list = append(f.list, artifactFile{name, data})
	return nil
}

// maxArtifactFiles is the limit for the sizes of all files. artifactFiles.encode adds their names and sizes, and must not
// exceed the limit of a URL.
const maxArtifactFiles = input.MaxSource - maxArtifactEntries*(longestName+32)

// longestName is the maximum length of a file's name, in bytes (NAME_MAX).
const longestName = 255

// unpack adds the files of a layer that is a tar archive, compressed with gzip.
func (f *artifactFiles) unpack(layer []byte) error {
	rest := bytes.NewReader(layer)
	z, err := gzip.NewReader(rest)
	if err != nil {
		return fmt.Errorf("the archive: %w", err)
	}
	z.Multistream(false)
	limited := &io.LimitedReader{R: z, N: maxUnpacked}
	t := tar.NewReader(limited)
	for entries := 0; ; entries++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if limited.N == 0 {
			return hostfile.TooLarge(maxUnpacked)
		}
		if err != nil {
			return fmt.Errorf("the archive: %w", err)
		}
		if entries == maxArtifactEntries {
			return fmt.Errorf("the archive has more than %d entries", maxArtifactEntries)
		}
		if err := f.addEntry(h, t); err != nil {
			return err
		}
	}
	// The rest of the stream also belongs to the archive, and gzip verifies its checksum at the end.
	if _, err := io.Copy(io.Discard, limited); err != nil {
		return fmt.Errorf("the archive: %w", err)
	}
	switch {
	case limited.N == 0:
		return hostfile.TooLarge(maxUnpacked)
	case rest.Len() > 0:
		return errors.New("the archive has data after its end")
	}
	return nil
}

// addEntry adds an entry of an archive.
func (f *artifactFiles) addEntry(h *tar.Header, content io.Reader) error {
	name := strings.TrimPrefix(h.Name, "./")
	shown := strconv.Quote(h.Name)
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		name = strings.TrimSuffix(name, "/")
	case tar.TypeReg:
	default:
		return fmt.Errorf("the archive has a link or a device: %s", shown)
	}
	switch {
	case h.Typeflag == tar.TypeDir && (name == "" || name == "."):
		return nil
	case path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../"):
		return fmt.Errorf("the archive has the path %s", shown)
	case h.Typeflag == tar.TypeDir:
		return nil
	case strings.Contains(name, "/") && kindOfName(path.Base(name)) == manifestName:
		return fmt.Errorf("the archive has a manifest in a subdirectory, which podrun does not read: %s", shown)
	case strings.Contains(name, "/"):
		return nil
	case h.Size > maxArtifactFiles:
		return hostfile.TooLarge(input.MaxSource)
	}
	return f.add(name, func() ([]byte, error) { return io.ReadAll(content) })
}

// encode returns the manifests as one content, which decodeArtifact decodes.
func (f *artifactFiles) encode() []byte {
	slices.SortFunc(f.list, func(a, b artifactFile) int { return strings.Compare(a.name, b.name) })
	b := bytes.NewBuffer([]byte{})
	for _, file := range f.list {
		if kindOfName(file.name) == manifestName {
			fmt.Fprintf(b, "%d %s\n%s", len(file.data), file.name, file.data)
		}
	}
	return b.Bytes()
}

// find returns the content of a file.
func (f *artifactFiles) find(name string) ([]byte, error) {
	for _, file := range f.list {
		if file.name == name {
			return file.data, nil
		}
	}
	return nil, fmt.Errorf("the artifact has no file %s", name)
}

// signed returns the signed list of the artifact.
func (f *artifactFiles) signed() (l signedList) {
	var err error
	if l.sums, l.err = f.find(sumsFile); l.err == nil {
		l.signature, err = f.find(sumsFile + signatureSuffix)
		l.err = err
	}
	if l.err == nil && len(l.signature) > signature.MaxSignature {
		l.err = hostfile.TooLarge(signature.MaxSignature)
	}
	return l
}

var errArtifactCopy = errors.New("the copy of the artifact is corrupt")

// decodeArtifact returns the manifests of an artifact.
func decodeArtifact(data []byte) ([]artifactFile, error) {
	var out []artifactFile
	for len(data) > 0 {
		line, rest, found := bytes.Cut(data, []byte("\n"))
		size, name, cut := strings.Cut(string(line), " ")
		n, err := strconv.ParseUint(size, 10, 31)
		if !found || !cut || err != nil || int(n) > len(rest) || !signature.IsFileName(name) {
			return nil, errArtifactCopy
		}
		out = append(out, artifactFile{name, rest[:n:n]})
		data = rest[n:]
	}
	return out, nil
}

// isArchive reports whether a layer is a tar archive, compressed with gzip.
func isArchive(mediaType string) bool {
	return strings.HasSuffix(mediaType, ".tar+gzip") || strings.HasSuffix(mediaType, ".tar.gzip")
}

// checkArtifact checks the manifest of an artifact, so that its layers can be fetched.
func checkArtifact(m ocispec.Manifest) error {
	switch {
	case len(m.Layers) == 0:
		return errors.New("the artifact has no layers")
	case len(m.Layers) > maxLayers:
		return fmt.Errorf("the artifact has more than %d layers", maxLayers)
	}
	left := int64(input.MaxSource)
	for _, l := range m.Layers {
		if l.Size < 0 || l.Size > left {
			return hostfile.TooLarge(input.MaxSource)
		}
		left -= l.Size
		if !isArchive(l.MediaType) && l.Annotations[ocispec.AnnotationTitle] == "" {
			return errors.New("a layer is neither an archive (tar+gzip) nor a file with a title: push the artifact with 'flux push artifact' or 'oras push'")
		}
	}
	return nil
}
