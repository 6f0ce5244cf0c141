package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// removeNft removes the rules of sandboxes that plugins created with nftables. If the host does not
// have nft, there are no such rules, because the plugins also use nft.
func removeNft(ctx context.Context, sandboxes []string) error {
	nft, err := exec.LookPath("nft")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, firewallLimit)
	defer cancel()
	listing, err := nftOutput(ctx, nft, "list", "tables")
	if err != nil {
		// The kernel does not support nftables, so there are no rules.
		return nil
	}
	tables, err := tablesOf(listing)
	if err != nil {
		return err
	}
	var errs []error
	for _, table := range tables {
		errs = append(errs, removeFromTable(ctx, nft, table, sandboxes))
	}
	return errors.Join(errs...)
}

func removeFromTable(ctx context.Context, nft string, table nftTable, sandboxes []string) error {
	listing, err := nftOutput(ctx, nft, "list", "table", table.Family, table.Name)
	if err != nil {
		return fmt.Errorf("list the nftables rules of network plugins: %w", err)
	}
	script, err := nftRemoval(listing, table, sandboxes)
	if err != nil || len(script) == 0 {
		return err
	}
	c := exec.CommandContext(ctx, nft, "-f", "-")
	c.Stdin = bytes.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("remove the nftables rules of removed sandboxes: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// nftOutput returns the output of nft -j.
func nftOutput(ctx context.Context, nft string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	// This stops nft if it writes more than podrun reads.
	defer cancel()
	c := exec.CommandContext(ctx, nft, append([]string{"-j"}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(out, maxRules+1))
	if len(data) > maxRules {
		cancel()
		err = fmt.Errorf("nft %s: more than %d MiB", strings.Join(args, " "), maxRules>>20)
	}
	if ended := c.Wait(); err == nil {
		err = ended
	}
	return data, err
}
