package discover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/json"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
)

// UserNS reads the ranges of host IDs that podrun's pods hold, by UID.
func UserNS(layout identity.Layout) (map[string]uint32, error) {
	files, err := filepath.Glob(layout.UserNS("*"))
	if err != nil {
		return nil, trouble("list the user namespaces of podrun's pods", err, "")
	}
	var held map[string]uint32
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its pod was deleted meanwhile
		}
		var ns host.UserNS
		if err == nil {
			_, err = json.UnmarshalStrict(data, &ns)
		}
		if err == nil && len(ns.UIDs) != 1 {
			err = errors.New("not one range")
		}
		if err != nil {
			return nil, trouble("read which host IDs a pod holds in "+file, err, "delete the pod of that directory")
		}
		if held == nil {
			held = map[string]uint32{}
		}
		held[filepath.Base(filepath.Dir(file))] = ns.UIDs[0].HostID
	}
	return held, nil
}
