package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// searchPath is the PATH of an image that has a shell.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// build returns all images, by repository and tag.
func build(bin, busybox string) (map[string]remote.Taggable, error) {
	shell, err := busyboxTree(busybox)
	if err != nil {
		return nil, err
	}
	base, err := image(v1.Config{Env: []string{searchPath}, Cmd: []string{"sh"}}, shell)
	if err != nil {
		return nil, err
	}
	images := map[string]remote.Taggable{"busybox:1.36": base}
	for tag, user := range map[string]string{"busybox:nonroot": "65532", "busybox:username": "app"} {
		if images[tag], err = withConfig(base, func(c *v1.Config) { c.User = user }); err != nil {
			return nil, err
		}
	}
	// Each test that pulls uses a separate image, because tests share a runtime, and a test must
	// not find its image present because of another test's pull.
	for tag, text := range map[string]string{"pull": "yes", "smoke": "smoke", "private": "by those who may", "credentials": "with credentials",
		"listed": "and listed", "warm": "once", "volume": "as a volume"} {
		if images["busybox:"+tag], err = withLayers(base, tree{file("etc/pulled", 0o644, []byte(text+"\n"))}); err != nil {
			return nil, err
		}
	}
	if images["big:1"], err = withLayers(base, noise(1), noise(2), noise(3), noise(4)); err != nil {
		return nil, err
	}
	if images["busybox:otherarch"], err = elsewhere(base); err != nil {
		return nil, err
	}
	for tag, program := range map[string]string{"pause:3.9": "pause", "httpd:1": "httpd"} {
		if images[tag], err = programImage(filepath.Join(bin, program)); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// image returns an image for the architecture. It has a layer for each tree.
func image(config v1.Config, layers ...tree) (v1.Image, error) {
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: architecture, Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	return withLayers(img, layers...)
}

// withLayers adds a layer for each tree.
func withLayers(base v1.Image, layers ...tree) (v1.Image, error) {
	for _, t := range layers {
		layer, err := t.layer()
		if err != nil {
			return nil, err
		}
		if base, err = mutate.AppendLayers(base, layer); err != nil {
			return nil, fmt.Errorf("add a layer: %w", err)
		}
	}
	return base, nil
}

// withConfig changes the config of the image, and thereby its ID.
func withConfig(base v1.Image, change func(*v1.Config)) (v1.Image, error) {
	file, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	config := file.Config.DeepCopy()
	change(config)
	return mutate.Config(base, *config)
}

// programImage returns an image that contains only a static program. The program is the image's
// entrypoint.
func programImage(path string) (v1.Image, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	return image(v1.Config{Entrypoint: []string{"/" + name}}, tree{file(name, 0o755, content)})
}

// elsewhere returns an index that offers the image only for another architecture.
func elsewhere(base v1.Image) (v1.ImageIndex, error) {
	other := "s390x"
	if architecture == other {
		other = "amd64"
	}
	config, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	config = config.DeepCopy()
	config.Architecture = other
	img, err := mutate.ConfigFile(base, config)
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add:        img,
		Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: other}},
	}), nil
}

// noise returns 2 MiB of data that cannot be compressed. The data depends only on the seed.
func noise(seed byte) tree {
	content := make([]byte, 2<<20)
	// The specification fixes the output of ChaCha8, and Read never fails.
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(content)
	return tree{file(fmt.Sprintf("noise/%d", seed), 0o644, content)}
}

// busyboxTree returns a small root file system. It has a static busybox, and a link for each of
// busybox's commands.
func busyboxTree(path string) (tree, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	runs := path
	if architecture != runtime.GOARCH {
		// The busybox of this machine can be asked instead, because it has the same commands.
		runs = "/bin/busybox"
	}
	list, err := exec.Command(runs, "--list-full").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of %s: %w", path, err)
	}
	t := tree{
		dir("tmp", 0o1777), dir("root", 0o700), dir("home/app", 0o755).owned(1000),
		dir("var/run", 0o755), dir("proc", 0o755), dir("sys", 0o755), dir("dev", 0o755),
		file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"+
			"app:x:1000:1000:app:/home/app:/bin/sh\n"+
			"nobody:x:65534:65534:nobody:/:/bin/false\n")),
		file("etc/group", 0o644, []byte("root:x:0:\napp:x:1000:\nextra:x:2000:app\nnogroup:x:65534:\n")),
		file("bin/busybox", 0o755, content),
	}
	for command := range strings.FieldsSeq(string(list)) {
		if command != "bin/busybox" && command != "linuxrc" {
			t = append(t, link(command, "/bin/busybox"))
		}
	}
	return t, nil
}
