package discover

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/json"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
)

// UserNS reads the ranges of host IDs that podrun's pods hold, by UID.
func UserNS(layout identity.Layout) (map[string]uint32, error) {
	// A glob would look at each directory in four calls.
	pods, err := os.ReadDir(layout.PodsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, trouble("list the user namespaces of podrun's pods", err, "")
	}
	var held map[string]uint32
	for _, pod := range pods {
		file := layout.UserNS(pod.Name())
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue // most have none
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
		held[pod.Name()] = ns.UIDs[0].HostID
	}
	return held, nil
}

// othersUserNS adds the ranges that pods of other podruns on the same runtime
// hold. What can't be read of another podrun's is not known of it.
func othersUserNS(held map[string]uint32, pods []host.Pod) map[string]uint32 {
	roots := map[string]bool{}
	for _, p := range pods {
		if p.RootDir == "" || p.Managed || roots[p.RootDir] {
			continue
		}
		roots[p.RootDir] = true
		others, err := UserNS(identity.Layout{RootDir: p.RootDir})
		if err != nil {
			continue
		}
		if held == nil {
			held = map[string]uint32{}
		}
		for uid, first := range others {
			if _, own := held[uid]; !own {
				held[uid] = first
			}
		}
	}
	return held
}
