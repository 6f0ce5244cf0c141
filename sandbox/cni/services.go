package cni

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoServices means that the network's plugin is from a release that does not support Services.
var ErrNoServices = errors.New("the running runtime's podrun-net does not support Services")

// SetServices makes the network forward the ports of a table (service.Table as JSON), unless the kernel
// already has the rules of this table. The arguments v4 and v6 report whether the table has ports of
// these address families. If both are false, SetServices removes the rules. podrun-net marks its rules
// with a hash of the table, so SetServices also restores rules that another program has removed.
func (n OwnNetwork) SetServices(ctx context.Context, bridge string, table []byte, v4, v6 bool) (changed bool, err error) {
	sum := sha256.Sum256(table)
	comment := "podrun-services " + hex.EncodeToString(sum[:16])
	same := true
	for family, wanted := range map[uint8]bool{unix.NFPROTO_IPV4: v4, unix.NFPROTO_IPV6: v6} {
		have, err := readComments(family, "podrun-services-"+bridge, "prerouting")
		if err != nil {
			return false, err
		}
		same = same && (wanted && slices.Contains(have, comment) || !wanted && len(have) == 0)
	}
	if same {
		return false, nil
	}
	return true, n.callServices(ctx, table)
}

func (n OwnNetwork) callServices(ctx context.Context, table []byte) error {
	ctx, cancel := context.WithTimeout(ctx, firewallLimit)
	defer cancel()
	c := exec.CommandContext(ctx, n.Plugin, "services")
	c.Env = []string{}
	c.Stdin = bytes.NewReader(table)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("set the rules of Services: %w: %.500s", err, strings.TrimSpace(errs.String()))
	}
	if !strings.HasPrefix(out.String(), `{"services":`) {
		return ErrNoServices
	}
	return nil
}
