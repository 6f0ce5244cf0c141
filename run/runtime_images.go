package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/node"
)

// dropped is an image archive that a user has placed in <root-dir>/images.
type dropped struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
	Images  []string  `json:"images,omitempty"` // names of the images, once loaded
}

// maxDropped limits the number of archives that are examined.
const maxDropped = 1024

// newImages returns the archives that have not been loaded yet. It also returns the records of the
// loaded archives, by name.
func newImages(l embedded.Layout) (fresh, loaded map[string]dropped, err error) {
	entries, err := os.ReadDir(l.Images())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	loaded, fresh = readLoaded(context.Background(), l), map[string]dropped{}
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".tar") || strings.HasPrefix(e.Name(), ".") || len(fresh) == maxDropped {
			continue
		}
		info, err := os.Stat(filepath.Join(l.Images(), e.Name()))
		if err != nil || !info.Mode().IsRegular() {
			continue // the entry is a dangling link or a directory
		}
		d := dropped{Size: info.Size(), ModTime: info.ModTime()}
		if was, ok := loaded[e.Name()]; !ok || was.Size != d.Size || !was.ModTime.Equal(d.ModTime) {
			fresh[e.Name()] = d
		}
	}
	return fresh, loaded, nil
}

// readLoaded returns the records of the loaded archives, by name. An archive without a
// record is loaded again.
func readLoaded(ctx context.Context, l embedded.Layout) map[string]dropped {
	loaded, _, _ := loadedFile.Read(ctx, l.Loaded()) // podrun loads archives without a record again
	if loaded == nil {
		loaded = map[string]dropped{}
	}
	return loaded
}

var loadedFile = statefile.Declare(statefile.Kind[map[string]dropped]{
	What: "the record of loaded image archives", Files: "runtime/loaded.json", Scope: statefile.Host,
	On:     statefile.Answers{Absent: "no archive was loaded", Corrupt: loadedAgain, Unreadable: loadedAgain, Newer: statefile.Ignore},
	Paths:  func(l identity.Layout) []string { return []string{embedded.ReadLayout(l.RootDir).Loaded()} },
	Format: statefile.Unversioned, Mode: 0o640,
})

// loadedAgain is the answer of loadedFile.
const loadedAgain statefile.Action = "podrun loads the archives again"

// archivedImages returns the names of the images in the archives that podrun loaded from
// <root-dir>/images, if the archives still exist. These images count as in use, because a host
// without a network cannot pull them again.
func (e *Engine) archivedImages(ctx context.Context) []string {
	l := embedded.ReadLayout(e.Settings.RootDir)
	if e.Client.Endpoint() != l.Endpoint() {
		return nil // the images belong to another runtime
	}
	var names []string
	for archived, d := range readLoaded(ctx, l) {
		if _, err := os.Stat(filepath.Join(l.Images(), archived)); err == nil {
			names = append(names, d.Images...)
		}
	}
	return names
}

func hasNewImages(l embedded.Layout) bool {
	fresh, _, err := newImages(l)
	return err != nil || len(fresh) > 0
}

// loadDropped loads, once, each archive that a user has placed in <root-dir>/images. If an archive
// cannot be loaded, loadDropped prints a warning and continues, because pods may not require the
// archive. The layout's lock must be held.
func (r *Runtime) loadDropped(ctx context.Context) error {
	fresh, loaded, err := newImages(r.layout)
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
	e := &Engine{Node: node.Node{Client: client, Settings: r.settings, Warn: r.Warn}}
	for name, d := range fresh {
		path := filepath.Join(r.layout.Images(), name)
		names, err := e.loadFile(ctx, path)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			warning := problem.WarningOf(err)
			warning.File = path
			r.Warn(problem.List{warning})
			continue
		}
		d.Images = names
		loaded[name] = d
	}
	if err := loadedFile.Write(r.layout.Loaded(), loaded); err != nil {
		// Pods do not require the record.
		r.Warn(problem.List{problem.WarningOf(fmt.Errorf("write %s: %w", loadedFile.What, err))})
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
	_, loaded, err := newImages(r.layout)
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
func lostImages(ctx context.Context, l embedded.Layout, client *cri.Client, loaded map[string]dropped) (map[string]error, error) {
	lost := map[string]error{}
	for archived, d := range loaded {
		if _, err := os.Stat(filepath.Join(l.Images(), archived)); err != nil {
			continue // the user has removed the archive
		}
		for _, name := range d.Images {
			digest, err := archive.Lost(ctx, client.ImageConn(), name, true)
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

func (e *Engine) loadFile(ctx context.Context, path string) ([]string, error) {
	file, err := hostfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return e.LoadImages(ctx, file)
}
