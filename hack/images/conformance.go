package main

import (
	"archive/tar"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// conformance returns the images of Kubernetes' e2e tests that the node specs use, by the names
// that test/conformance/repositories.yaml gives them. agnhost, nonewprivs and pause contain the
// programs that test/conformance builds. The other images are replacements with only the content
// that the specs examine; nginx is a busybox, because the specs only change a pod's image to it.
func conformance(bin, busybox string) (map[string]remote.Taggable, error) {
	root, err := busyboxTree(busybox)
	if err != nil {
		return nil, err
	}
	shell, err := programFile(filepath.Join(bin, "sh"), "usr/bin/sh", 0o755)
	if err != nil {
		return nil, err
	}
	for _, e := range root { // the specs require all commands of busybox in /bin
		if command := path.Base(e.header.Name); e.header.Typeflag == tar.TypeSymlink && path.Dir(e.header.Name) != "bin" {
			root = append(root, link("bin/"+command, e.header.Linkname))
		}
	}
	root = append(root, file("etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n")))
	base, err := image(v1.Config{Env: []string{searchPath}, Cmd: []string{"sh"}}, root, tree{shell, link("bin/sh", "/usr/bin/sh")})
	if err != nil {
		return nil, err
	}
	pause, err := programImage(filepath.Join(bin, "pause"))
	if err != nil {
		return nil, err
	}
	if pause, err = withConfig(pause, func(c *v1.Config) { c.User = "65535:65535" }); err != nil {
		return nil, err
	}
	agnhost, err := agnhostImage(bin, base, pause)
	if err != nil {
		return nil, err
	}
	images := map[string]remote.Taggable{
		"gc/pause:3.10.2": pause, "e2e/busybox:1.37.0-1": base,
		"e2e/agnhost:2.63.0": agnhost, "e2e/agnhost:2.55": agnhost,
	}
	return images, addStandIns(images, bin, base)
}

// addStandIns adds the replacements that consist of busybox with one change.
func addStandIns(images map[string]remote.Taggable, bin string, base v1.Image) error {
	var err error
	if images["e2e/nonroot:1.5"], err = withConfig(base, func(c *v1.Config) { c.User = "1234" }); err != nil {
		return err
	}
	for _, tag := range []string{"e2e/nginx:1.15-4", "e2e/nginx:1.27-0"} {
		if images[tag], err = withLayers(base, tree{file("etc/image", 0o644, []byte(tag+"\n"))}); err != nil {
			return err
		}
	}
	const setuidSetgid = 0o6755
	privileges, err := programFile(filepath.Join(bin, "nonewprivs"), "usr/local/bin/nnp", setuidSetgid)
	if err != nil {
		return err
	}
	image, err := withLayers(base, tree{privileges})
	if err != nil {
		return err
	}
	if images["e2e/nonewprivs:1.4"], err = withConfig(image, func(c *v1.Config) { c.Cmd = []string{"nnp"} }); err != nil {
		return err
	}
	// A spec compares its output with the hostname that glibc's resolver returns.
	hostname, err := hostProgram("hostname", "usr/bin/hostname")
	if err != nil {
		return err
	}
	images["e2e/glibc-dns-testing:2.0.0"], err = withLayers(base, append(hostname, link("bin/hostname", "/usr/bin/hostname")))
	return err
}

// agnhostImage returns the image of most specs: Kubernetes' own agnhost, with bash, curl and nc of
// this host. The registry that agnhost serves contains the image pause.
func agnhostImage(bin string, base, pause v1.Image) (v1.Image, error) {
	agnhost, err := programFile(filepath.Join(bin, "agnhost"), "agnhost", 0o755)
	if err != nil {
		return nil, err
	}
	// Debian's busybox sh runs its own commands instead of the programs in PATH.
	content := tree{agnhost, link("bin/bash", "/usr/bin/bash"), link("bin/sh", "/usr/bin/bash"), link("agnhost-2", "agnhost"), dir("uploads", 0o755),
		file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"+
			"user-defined-in-image:x:1000:1000::/home:/bin/sh\n"+
			"nobody:x:65534:65534:nobody:/:/bin/false\n")),
		file("etc/group", 0o644, []byte("root:x:0:\nuser-defined-in-image:x:1000:\n"+
			"group-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n")),
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		certificate, err := programFile(filepath.Join(bin, name), name, 0o644)
		if err != nil {
			return nil, err
		}
		content = append(content, certificate)
	}
	registry, err := registryTree("var/registry/pause", "testing", pause)
	if err != nil {
		return nil, err
	}
	image, err := withLayers(base, append(content, registry...))
	if err != nil {
		return nil, err
	}
	// busybox's nc does not print the replies of UDP.
	for _, program := range []string{"bash", "curl", "nc.openbsd"} {
		files, err := hostProgram(program, "usr/bin/"+strings.TrimSuffix(program, ".openbsd"))
		if err != nil {
			return nil, err
		}
		if image, err = withLayers(image, files); err != nil {
			return nil, err
		}
	}
	return withConfig(image, func(c *v1.Config) { c.Entrypoint, c.Cmd = []string{"/agnhost"}, []string{"pause"} })
}

// registryTree returns an image in the file layout that agnhost's registry reads.
func registryTree(root, tag string, image v1.Image) (tree, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	id, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	at := func(kind string, h v1.Hash) string {
		return fmt.Sprintf("%s/%s/%s/%s/%s/data", root, kind, h.Algorithm, h.Hex[:2], h.Hex)
	}
	t := tree{
		file(root+"/manifests/"+tag, 0o644, []byte(digest.String())),
		file(at("manifests", digest), 0o644, manifest), file(at("blobs", id), 0o644, config),
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		content, err := compressed(layer)
		if err != nil {
			return nil, err
		}
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		t = append(t, file(at("blobs", digest), 0o644, content))
	}
	return t, nil
}

func programFile(path, name string, mode int64) (entry, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return entry{}, err
	}
	return file(name, mode, content), nil
}

func compressed(layer v1.Layer) ([]byte, error) {
	r, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// hostProgram returns a program of this host and the shared libraries that it loads.
func hostProgram(program, target string) (tree, error) {
	found, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	files := map[string]string{target: found}
	libraries, err := exec.Command("ldd", found).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %s: %w", found, err)
	}
	for field := range strings.FieldsSeq(string(libraries)) {
		if strings.HasPrefix(field, "/") {
			files[strings.TrimPrefix(field, "/")] = field
		}
	}
	var t tree
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := programFile(files[name], name, 0o755)
		if err != nil {
			return nil, err
		}
		t = append(t, f)
	}
	return t, nil
}
