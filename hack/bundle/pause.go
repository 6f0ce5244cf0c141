package main

import (
	"encoding/json"
)

// pauseName is the name of the sandbox image. podrun reads it from versions.json. No registry can
// have this name (RFC 2606), so a containerd that has lost the image cannot pull another one and
// run it as root. The tag changes when the program changes (embedded/bundle/pause).
const pauseName = "pause.podrun.invalid/pause:1"

// pauseImage returns a docker-archive of pauseName. Its only file is the program. Like
// Kubernetes' pause, it runs as user 65535.
func pauseImage(program []byte, arch string) ([]byte, error) {
	layer, err := plainTar(entry{"pause", 0o755, program})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"User": "65535:65535", "Entrypoint": []string{"/pause"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digestOf(layer)}},
	})
	if err != nil {
		return nil, err
	}
	id := digestOf(config)
	manifest, err := json.Marshal([]map[string]any{{
		"Config": id + ".json", "RepoTags": []string{pauseName}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	return plainTar(entry{"manifest.json", 0o644, manifest}, entry{id + ".json", 0o644, config}, entry{"layer.tar", 0o644, layer})
}
