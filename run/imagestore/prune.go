package imagestore

import (
	"context"
	"slices"

	"github.com/podrun/podrun/run/node"
)

// PruneInput is the input of Prune.
type PruneInput struct {
	All    bool // also images with a tag; otherwise only those whose names now refer to a newer image
	DryRun bool // remove nothing
	// Confirm decides whether Prune removes the images, of which there is at least one. It is not called for a dry
	// run; nil confirms.
	Confirm func([]Image) (bool, error)
}

// Prune removes unused images. The report has one entry for each image that it removed, also if there is an error,
// which is of kind Runtime or that of Confirm. Images that a pod uses since Confirm was called are kept.
func Prune(ctx context.Context, n *node.Node, in PruneInput) (out Report, err error) {
	chosen, err := unused(ctx, n, in.All)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	if in.DryRun {
		for _, i := range chosen {
			out = append(out, i.entry(DryRemove))
		}
		return out, nil
	}
	if in.Confirm != nil {
		if confirmed, err := in.Confirm(chosen); err != nil || !confirmed {
			return nil, err
		}
	}
	images, err := unused(ctx, n, true)
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		if !slices.ContainsFunc(chosen, func(c Image) bool { return c.ID == i.ID }) {
			continue
		}
		if err := n.Client.Images.Remove(ctx, i.ID); err != nil {
			return out, imageError(i.Title(), "remove", err)
		}
		out = append(out, i.entry(Removed))
	}
	return out, ForgetPulls(ctx, n)
}

func (i Image) entry(o Outcome) Entry {
	return Entry{Name: i.Title(), ID: i.ID, Size: i.Size, Outcome: o}
}

// unused returns the images that are not in use. The error is of kind Runtime.
func unused(ctx context.Context, n *node.Node, all bool) ([]Image, error) {
	images, err := List(ctx, n)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(images, func(i Image) bool { return i.InUse }) {
		// The sandbox image is unknown, so any image could be in use.
		return nil, nil
	}
	return slices.DeleteFunc(images, func(i Image) bool { return i.InUse || !all && len(i.Names) > 0 }), nil
}
