package main

import (
	"encoding/json"
)

// pauseRepository is a name that no registry can have (RFC 2606): a runtime that
// has lost the image must not pull another one from whoever serves the name.
const pauseRepository = "pause.podrun.invalid/pause"

// pauseImage makes a docker-archive of the image whose only file is the program,
// and the image's name, which has the image in its tag: another pause is another
// name. As Kubernetes' pause it runs as 65535.
func pauseImage(program []byte, arch string) (image []byte, name string, err error) {
	layer, err := plainTar(entry{"pause", 0o755, program})
	if err != nil {
		return nil, "", err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"User": "65535:65535", "Entrypoint": []string{"/pause"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digestOf(layer)}},
	})
	if err != nil {
		return nil, "", err
	}
	id := digestOf(config)
	name = pauseRepository + ":" + id[:8]
	manifest, err := json.Marshal([]map[string]any{{
		"Config": id + ".json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, "", err
	}
	image, err = plainTar(entry{"manifest.json", 0o644, manifest}, entry{id + ".json", 0o644, config}, entry{"layer.tar", 0o644, layer})
	return image, name, err
}
