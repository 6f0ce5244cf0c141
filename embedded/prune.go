package embedded

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/rootless"
)

// Prune removes unpacked archives, except keep. It removes an archive only if no process runs
// it, including podrun-rootless, and no container requires it. The caller must hold the layout's lock.
func Prune(ctx context.Context, l Layout, keep string) error {
	digests, err := UnpackedDigests(l)
	if err != nil {
		return err
	}
	running, err := readRunning(l)
	if err != nil {
		return err
	}
	used := map[string]bool{keep: true}
	for _, p := range running {
		used[p.Digest] = true
	}
	for _, d := range readShimDigests(l) {
		used[d] = true
	}
	if r := rootless.Inside(); r != nil {
		digest, _ := archiveOf(l.Dir(), r.Program) // its record names podrun-enter of this archive
		used[digest] = true
	}
	var errs []error
	for _, d := range digests {
		if !used[d] {
			errs = append(errs, removeTree(ctx, l.Unpacked(d)))
		}
	}
	return errors.Join(errs...)
}
