// Package cniplugin executes plugins of pod networks.
package cniplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/rootless"
)

// Own is the type of the embedded runtime's plugin in the configuration of a network, and the name of its
// program. It allocates addresses itself, with the settings and the files of host-local, but without
// executing host-local.
const Own = "podrun-net"

// limit is the time limit of a call. A plugin waits for the lock of the network's addresses and for
// the kernel.
const limit = 30 * time.Second

// InNamespace adds the key "rootless" to a configuration or to another JSON object for podrun-net, if an ordinary user
// runs podrun: podrun-net then works in the network namespace of podrun-rootless. It does not change an object that
// has the key.
func InNamespace(object []byte) []byte {
	namespace := Namespace()
	if namespace == nil {
		return object
	}
	return addKey(object, *namespace)
}

// Namespace returns the value of the key "rootless"; nil for root.
func Namespace() *Rootless {
	r := rootless.Inside()
	if r == nil {
		return nil
	}
	return &Rootless{Netns: r.Netns, Ports: r.Ports}
}

// Rootless is the value of the key "rootless" (docs/design/rootless.md).
type Rootless struct {
	Netns string `json:"netns"` // the bind mount of the namespace
	Ports string `json:"ports"` // the socket of podrun-rootless for host ports
}

// addKey adds the key to a JSON object that does not have it.
func addKey(object []byte, value Rootless) []byte {
	var have struct{ Rootless *Rootless }
	rest, isObject := bytes.CutPrefix(bytes.TrimSpace(object), []byte("{"))
	data, err := json.Marshal(value)
	if !isObject || err != nil || json.Unmarshal(object, &have) != nil || have.Rootless != nil {
		return object
	}
	separator := ","
	if bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		separator = ""
	}
	return slices.Concat([]byte(`{"rootless":`), data, []byte(separator), rest)
}

// Exec executes a plugin as a container runtime does (CNI specification, section 2). The environment
// contains only env, such as CNI_CONTAINERID=ID, and the variables that every command requires. The
// error contains what the plugin wrote, which is a JSON object with the reason.
func Exec(ctx context.Context, plugin, command string, stdin []byte, env ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, plugin)
	c.Env = append(env, "CNI_COMMAND="+command, "CNI_PATH="+filepath.Dir(plugin))
	c.Stdin = bytes.NewReader(InNamespace(stdin))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.500s", plugin, err, strings.TrimSpace(string(out)))
	}
	return nil
}
