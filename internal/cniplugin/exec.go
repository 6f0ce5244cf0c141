// Package cniplugin executes plugins of pod networks.
package cniplugin

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Own is the type of the embedded runtime's plugin in the configuration of a network, and the name of its
// program. It allocates addresses itself, with the settings and the files of host-local, but without
// executing host-local.
const Own = "podrun-net"

// limit is the time limit of a call. A plugin waits for the lock of the network's addresses and for
// the kernel.
const limit = 30 * time.Second

// Exec executes a plugin as a container runtime does (CNI specification, section 2). The environment
// contains only env, such as CNI_CONTAINERID=ID, and the variables that every command requires. The
// error contains what the plugin wrote, which is a JSON object with the reason.
func Exec(ctx context.Context, plugin, command string, stdin []byte, env ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, plugin)
	c.Env = append(env, "CNI_COMMAND="+command, "CNI_PATH="+filepath.Dir(plugin))
	c.Stdin = bytes.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.500s", plugin, err, strings.TrimSpace(string(out)))
	}
	return nil
}
