package ownruntime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/node"
)

// loadDropped loads, once, each archive that a user has placed in <root-dir>/images. If an archive
// cannot be loaded, loadDropped prints a warning and continues, because pods may not require the
// archive. The layout's lock must be held.
func (r *Runtime) loadDropped(ctx context.Context) error {
	fresh, loaded, err := embedded.NewImages(r.layout)
	if err != nil {
		r.Warn(problem.List{problem.WarningOf(fmt.Errorf("load the images of %s: %w", r.layout.Images(), err))})
	}
	if len(fresh)+len(loaded) == 0 {
		return nil
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	defer client.Close()
	lost, err := lostImages(ctx, r.layout, client, loaded)
	if err != nil {
		return err
	}
	for archived, loss := range lost {
		if _, again := fresh[archived]; !again {
			r.Warn(problem.List{{Warning: true, Object: "embedded runtime", Message: fmt.Sprintf("podrun loads %s again: %s", archived, loss)}})
			fresh[archived] = loaded[archived]
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	defer trace.Begin(ctx, "load image archives", "")()
	n := &node.Node{Client: client, Settings: r.settings, Warn: r.Warn}
	for name, d := range fresh {
		path := filepath.Join(r.layout.Images(), name)
		report, err := imagestore.LoadFile(ctx, n, path)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			warning := problem.WarningOf(err)
			warning.File = path
			r.Warn(problem.List{warning})
			continue
		}
		d.Images = nil
		for _, e := range report {
			d.Images = append(d.Images, e.Name)
		}
		loaded[name] = d
	}
	if err := embedded.LoadedFile.Write(r.layout.Loaded(), loaded); err != nil {
		// Pods do not require the record.
		r.Warn(problem.List{problem.WarningOf(fmt.Errorf("write %s: %w", embedded.LoadedFile.What, err))})
	}
	return nil
}

// hasLostImages reports whether containerd has lost a blob of the sandbox image, or of an image in an
// archive. Both can be loaded again.
func (r *Runtime) hasLostImages(ctx context.Context) bool {
	if (ownPause{r}).check(ctx) != nil {
		return true
	}
	lost, err := findLost(ctx, r)
	return err != nil || len(lost) > 0
}

// findLost is lostImages for the archives that podrun has loaded.
func findLost(ctx context.Context, r *Runtime) (map[string]error, error) {
	_, loaded, err := embedded.NewImages(r.layout)
	if err != nil || len(loaded) == 0 {
		return nil, err
	}
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, checkImagesWithin)
	defer cancel()
	return lostImages(ctx, r.layout, client, loaded)
}

// checkImagesWithin limits the check of the images of archives.
const checkImagesWithin = 30 * time.Second

// lostImages returns the archives whose images have lost a blob in containerd, each with the loss.
func lostImages(ctx context.Context, l embedded.Layout, client *cri.Client, loaded map[string]embedded.Dropped) (map[string]error, error) {
	lost := map[string]error{}
	for archived, d := range loaded {
		if _, err := os.Stat(filepath.Join(l.Images(), archived)); err != nil {
			continue // the user has removed the archive
		}
		for _, name := range d.Images {
			digest, err := archive.Lost(ctx, client.Images.Conn(), name, true)
			if err != nil {
				return nil, &problem.Error{Kind: problem.Runtime, Object: "image " + name, Op: "check its content", Err: err}
			}
			if digest != "" {
				lost[archived] = lostBlob{name, digest}
			}
		}
	}
	return lost, nil
}
