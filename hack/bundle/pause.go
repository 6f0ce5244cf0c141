package main

import (
	"encoding/json"

	"github.com/podrun/podrun/embedded"
)

// pauseImage makes a docker-archive of embedded.PauseImage, whose only file is the
// program. As Kubernetes' pause it runs as 65535.
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
		"Config": id + ".json", "RepoTags": []string{embedded.PauseImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	return plainTar(entry{"manifest.json", 0o644, manifest}, entry{id + ".json", 0o644, config}, entry{"layer.tar", 0o644, layer})
}
