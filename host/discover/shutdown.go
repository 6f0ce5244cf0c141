package discover

import (
	"context"
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/identity"
)

// BootID is the kernel's random ID of this boot (random(4)).
func BootID(ctx context.Context) (string, error) { return machine{ctx: ctx, root: "/"}.bootID() }

func (m machine) bootID() (string, error) {
	data, err := m.read(maxState, "proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the ID of this boot: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// ShuttingDown reports whether the host shuts down: whether a supervisor of this root directory
// has recorded a shutdown since the last boot.
func ShuttingDown(ctx context.Context, layout identity.Layout) bool {
	return podState{machine: machine{ctx: ctx, root: "/"}, layout: layout}.shuttingDown()
}

// shuttingDown ignores a record that podrun cannot use, because a shutdown is short.
func (m podState) shuttingDown() bool {
	noted, _, err := ShutdownFile.Read(m.ctx, m.layout.Serve().ShuttingDown()) // Scan reports the fault
	if err != nil || noted == "" {
		return false
	}
	boot, err := m.bootID()
	return err == nil && noted == boot
}
