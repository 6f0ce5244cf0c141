package archive

import (
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// platform is the platform of an image, as in OCI's image-spec.
type platform struct {
	OS           string `json:"os,omitempty"`
	Architecture string `json:"architecture,omitempty"`
}

func (p platform) String() string { return p.OS + "/" + p.Architecture }

// platforms returns the platforms of an image that the archive contains.
func (a *tarball) platforms(d descriptor, depth int) ([]platform, error) {
	if d.Platform != nil && d.Platform.OS != "" {
		return []platform{*d.Platform}, nil
	}
	name := blobPath(d.Digest)
	if known, ok := a.has[name]; ok {
		return known, nil
	}
	// An index may refer to itself. Without this entry, the recursion would not end. walk refuses
	// such an index.
	a.has[name] = nil
	if depth > maxNesting {
		return nil, fmt.Errorf("%s: indexes are nested more than %d deep", name, maxNesting)
	}
	doc, err := a.entries(name)
	if err != nil {
		return nil, err
	}
	var out []platform
	if doc.Config != nil {
		out, err = a.platformOf(blobPath(doc.Config.Digest))
		a.has[name] = out
		return out, err
	}
	for _, m := range doc.Manifests {
		if _, here := a.files[blobPath(m.Digest)]; !here {
			continue
		}
		of, err := a.platforms(m, depth+1)
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	a.has[name] = out
	return out, nil
}

// platformOf reads the platform from an image's config. If the config does not specify one,
// platformOf returns nil. The CRI plugin never lists an image whose config it cannot decode.
func (a *tarball) platformOf(config string) ([]platform, error) {
	var image ocispec.Image
	if err := a.document(config, &image); err != nil || image.OS == "" || image.Architecture == "" {
		return nil, err
	}
	return []platform{{image.OS, image.Architecture}}, nil
}

// forHost refuses an image that is not for the host's platform. containerd would accept it, but
// never list it.
func forHost(name string, has []platform, host platform) error {
	if len(has) == 0 || slices.Contains(has, host) {
		return nil
	}
	var list []string
	for _, p := range has {
		if p.OS != "unknown" { // attestations have the platform "unknown"
			list = append(list, p.String())
		}
	}
	return fmt.Errorf("image %s is for %s, but this host is %s", name, strings.Join(list, ", "), host)
}
