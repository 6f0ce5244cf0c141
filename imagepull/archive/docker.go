package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
)

// dockerImages reads an archive that an old version of docker save wrote without an OCI layout.
func (a *tarball) dockerImages() ([]named, []blob, error) {
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := a.document("manifest.json", &list); err != nil {
		return nil, nil, err
	}
	var images []named
	var blobs []blob
	for _, entry := range list {
		config, err := a.blobOf(entry.Config, "application/vnd.docker.container.image.v1+json")
		if err != nil {
			return nil, nil, err
		}
		if len(entry.Layers) > maxEntries || len(blobs) > maxBlobs {
			return nil, nil, fmt.Errorf("manifest.json has an image with more than %d layers, or more than %d blobs", maxEntries, maxBlobs)
		}
		doc := document{SchemaVersion: 2, MediaType: "application/vnd.docker.distribution.manifest.v2+json", Config: &config.desc}
		blobs = append(blobs, config)
		for _, name := range entry.Layers {
			layer, err := a.blobOf(name, "application/vnd.docker.image.rootfs.diff.tar")
			if err != nil {
				return nil, nil, err
			}
			blobs, doc.Layers = append(blobs, layer), append(doc.Layers, layer.desc)
		}
		data, err := json.Marshal(doc)
		if err != nil {
			return nil, nil, err
		}
		sum := sha256.Sum256(data)
		target := descriptor{MediaType: doc.MediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(data))}
		blobs = append(blobs, blob{desc: target, data: data, children: append([]descriptor{config.desc}, doc.Layers...)})
		platforms, err := a.platformOf(path.Clean(entry.Config))
		if err != nil {
			return nil, nil, err
		}
		images = append(images, named{target: target, names: entry.RepoTags, platforms: platforms})
	}
	return images, blobs, nil
}

// blobOf returns the blob for a file. If the file is a layer, gzip may have compressed it. blobOf
// hashes each file only once, even if several images contain it.
func (a *tarball) blobOf(name, mediaType string) (blob, error) {
	name = path.Clean(name)
	if b, ok := a.made[name]; ok {
		return b, nil
	}
	s, ok := a.files[name]
	if !ok {
		return blob{}, fmt.Errorf("%s is not in the archive", name)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, &counter{ctx: a.ctx, r: a.open(s)}); err != nil {
		return blob{}, fmt.Errorf("%s: %w", name, err)
	}
	magic := make([]byte, 2)
	if n, _ := io.ReadFull(a.open(s), magic); n == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		mediaType += ".gzip"
	}
	b := blob{where: s, desc: descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), Size: s.size}}
	a.made[name] = b
	return b, nil
}
