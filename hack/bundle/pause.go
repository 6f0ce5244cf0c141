package main

import (
	"encoding/json"
)

// pauseName is the sandbox image, which podrun reads from versions.json. No registry can
// have this name (RFC 2606): a containerd that lost the image must not pull and run
// another one as root. The tag changes with the program (embedded/bundle/pause).
const pauseName = "pause.podrun.invalid/pause:1"

// pauseImage returns a docker-archive of pauseName, whose only file is the program. Like
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
