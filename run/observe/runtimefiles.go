package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cri"
)

// RuntimeFiles returns the paths of the writable files that the runtime itself mounts into a container,
// such as resolv.conf and hostname. containerd and CRI-O store them in directories whose names contain
// the sandbox ID or the container ID. The list is empty if the runtime does not report the container's
// OCI specification. The error is the runtime's.
func RuntimeFiles(ctx context.Context, client *cri.Client, id string) ([]string, error) {
	resp, err := client.ContainerStatus(ctx, id, true)
	if err != nil {
		return nil, fmt.Errorf("read container %s: %w", ShortID(id), err)
	}
	var info struct {
		SandboxID   string `json:"sandboxID"`
		RuntimeSpec struct {
			Mounts []struct {
				Type    string   `json:"type"`
				Source  string   `json:"source"`
				Options []string `json:"options"`
			} `json:"mounts"`
		} `json:"runtimeSpec"`
	}
	if json.Unmarshal([]byte(resp.GetInfo()["info"]), &info) != nil {
		return nil, nil
	}
	requested := map[string]bool{}
	for _, m := range resp.GetStatus().GetMounts() {
		requested[m.GetHostPath()] = true
	}
	var out []string
	for _, m := range info.RuntimeSpec.Mounts {
		path := strings.Split(m.Source, "/")
		own := info.SandboxID != "" && slices.Contains(path, info.SandboxID) || slices.Contains(path, id)
		if m.Type == "bind" && own && !requested[m.Source] && !slices.Contains(m.Options, "ro") {
			out = append(out, m.Source)
		}
	}
	return out, nil
}
