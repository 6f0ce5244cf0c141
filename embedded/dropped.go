package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// Dropped is an image archive that a user has placed in <root-dir>/images.
type Dropped struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
	Images  []string  `json:"images,omitempty"` // names of the images, once loaded
}

// maxDropped limits the number of archives that are examined.
const maxDropped = 1024

// NewImages returns the archives that have not been loaded yet. It also returns the records of the
// loaded archives, by name.
func NewImages(l Layout) (fresh, loaded map[string]Dropped, err error) {
	entries, err := os.ReadDir(l.Images())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	loaded, fresh = ReadLoaded(context.Background(), l), map[string]Dropped{}
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".tar") || strings.HasPrefix(e.Name(), ".") || len(fresh) == maxDropped {
			continue
		}
		info, err := os.Stat(filepath.Join(l.Images(), e.Name()))
		if err != nil || !info.Mode().IsRegular() {
			continue // the entry is a dangling link or a directory
		}
		d := Dropped{Size: info.Size(), ModTime: info.ModTime()}
		if was, ok := loaded[e.Name()]; !ok || was.Size != d.Size || !was.ModTime.Equal(d.ModTime) {
			fresh[e.Name()] = d
		}
	}
	return fresh, loaded, nil
}

// ReadLoaded returns the records of the loaded archives, by name. An archive without a
// record is loaded again.
func ReadLoaded(ctx context.Context, l Layout) map[string]Dropped {
	loaded, _, _ := LoadedFile.Read(ctx, l.Loaded()) // podrun loads archives without a record again
	if loaded == nil {
		loaded = map[string]Dropped{}
	}
	return loaded
}

var LoadedFile = statefile.Declare(statefile.Kind[map[string]Dropped]{
	What: "the record of loaded image archives", Files: "runtime/loaded.json", Scope: statefile.Host,
	On:     statefile.Answers{Absent: "no archive was loaded", Corrupt: loadedAgain, Unreadable: loadedAgain, Newer: statefile.Ignore},
	Paths:  func(l identity.Layout) []string { return []string{ReadLayout(l.RootDir).Loaded()} },
	Format: statefile.Unversioned, Mode: 0o640,
})

// loadedAgain is the answer of LoadedFile.
const loadedAgain statefile.Action = "podrun loads the archives again"

func HasNewImages(l Layout) bool {
	fresh, _, err := NewImages(l)
	return err != nil || len(fresh) > 0
}
