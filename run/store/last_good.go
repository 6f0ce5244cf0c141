package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
)

// LastGood is the last definition of a pod that was good. In contrast to a Revision, it contains all objects to which the pod
// refers, and later definitions do not replace it.
type LastGood struct {
	// Made has Images. Its field SecretsLost is true if its Secrets were in memory and podrun has lost them.
	Made manifest.Checkpoint
	Hash string // of Made (manifest.Checkpoint.Hash)
}

// goodRevision is LastGood in a history file.
type goodRevision struct {
	Hash    string            `json:"hash"`
	Objects string            `json:"objects"` // as in a checkpoint
	Images  map[string]string `json:"images,omitempty"`
	// InMemory is the name of the file in memory that contains the complete definition; "" if Objects does.
	InMemory string `json:"inMemory,omitempty"`
}

// KeepGood records a definition of a pod as the last good one. Made.Images are the IDs of its images. If podrun keeps the
// Secrets of the pod in memory, the complete definition is in a file in memory, and the history contains no Secrets. The
// pod's lock must be held.
func KeepGood(layout identity.Layout, id identity.Pod, good LastGood) error {
	h, err := readHistory(layout, id)
	switch {
	case err != nil && !IsCorrupt(err):
		return err
	case err != nil || !h.describes(id.UID):
		h = history{UID: id.UID}
	}
	next := goodRevision{Hash: good.Hash, Images: good.Made.Images}
	data, err := good.Made.Marshal()
	if err == nil && good.Made.InMemory && len(good.Made.Secrets) > 0 {
		next.InMemory = RandomHex(16)
		if err = writeSecretFile(layout, filepath.Join(layout.Secrets().LastGood(id), next.InMemory), data); err == nil {
			data, err = good.Made.WithoutSecrets().Marshal()
		}
	}
	if err != nil {
		return fmt.Errorf("write the history of pod %s: %w", id, err)
	}
	next.Objects = string(data)
	h.Good = &next
	if err := h.write(layout, id); err != nil {
		return err
	}
	return dropGoodSecrets(layout, id, next.InMemory)
}

// ReadGood returns the last good definition of a pod; nil if there is none, or if it cannot be decoded: an error would be
// permanent, and the pod would never leave the state RollingBack.
func ReadGood(layout identity.Layout, id identity.Pod) (*LastGood, error) {
	h, err := readHistory(layout, id)
	if err != nil || h.Good == nil || !h.describes(id.UID) {
		return nil, err
	}
	made, err := manifest.Unmarshal([]byte(h.Good.Objects))
	if err != nil {
		return nil, nil
	}
	if token := h.Good.InMemory; token != "" {
		whole := secretGoodFile.Examine(context.Background(), filepath.Join(layout.Secrets().LastGood(id), filepath.Base(token)))
		if whole.State == statefile.Intact {
			made = whole.Value
		}
		made.InMemory, made.SecretsLost = true, whole.State != statefile.Intact
	}
	made.Default()
	made.Images = h.Good.Images
	return &LastGood{Made: made, Hash: h.Good.Hash}, nil
}

// secretGoodFile is the complete last good definition of a pod whose Secrets are in memory.
var secretGoodFile = statefile.Declare(statefile.Kind[manifest.Checkpoint]{
	What: "the last good definition of a pod in memory", Files: "(in memory) last-good/<namespace>_<name>/<random>", Scope: statefile.OfPod,
	On: statefile.Answers{
		Absent:     "podrun takes the Secrets from the pod's source",
		Corrupt:    statefile.Ignore,
		Unreadable: statefile.Ignore,
		Newer:      statefile.Ignore,
	},
	Paths:  secretGoodFiles,
	Format: statefile.Unversioned, Limit: identity.MaxCheckpoint, Decode: manifest.Unmarshal,
})

func secretGoodFiles(l identity.Layout) (out []string) {
	pods, _ := os.ReadDir(l.Secrets().LastGoods()) // the directory exists only if Secrets are in memory
	for _, p := range pods {
		files, _ := os.ReadDir(filepath.Join(l.Secrets().LastGoods(), p.Name()))
		for _, f := range files {
			if f.Name()[0] != '.' { // being written
				out = append(out, filepath.Join(l.Secrets().LastGoods(), p.Name(), f.Name()))
			}
		}
	}
	return out
}

// dropGoodSecrets removes the last good definitions of a pod in memory, except the one with the given name.
func dropGoodSecrets(layout identity.Layout, id identity.Pod, keep string) error {
	return dropFiles(layout, layout.Secrets().LastGood(id), func(name string) bool { return name != keep })
}

// sweepGoodSecrets removes the last good definitions in memory of pods without a history.
func sweepGoodSecrets(layout identity.Layout) error {
	entries, err := os.ReadDir(layout.Secrets().LastGoods())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		id, ok := identity.NamedPod(e.Name())
		if !ok {
			continue
		}
		if _, err := os.Lstat(layout.History(id)); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, dropGoodSecrets(layout, id, ""))
		}
	}
	return errors.Join(errs...)
}

// dropSecrets removes the Secrets from the definition.
func (g *goodRevision) dropSecrets() (dropped bool) {
	if g == nil || g.InMemory != "" {
		return false
	}
	c, err := manifest.Unmarshal([]byte(g.Objects))
	if err != nil || len(c.Secrets) == 0 {
		return false
	}
	data, err := c.WithoutSecrets().Marshal()
	if err != nil {
		return false
	}
	// There is no file of this name, so that the Secrets count as lost.
	g.Objects, g.InMemory = string(data), "none"
	return true
}

// ImageIDs returns the IDs of the images, sorted.
func (g LastGood) ImageIDs() []string {
	return slices.Compact(slices.Sorted(maps.Values(g.Made.Images)))
}
