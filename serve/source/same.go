package source

import (
	"maps"
	"slices"

	"github.com/podrun/podrun/manifest"
)

// Same reports whether two consecutive results of Read and Merge define the same pods in the same way,
// and whether MayDefine has the same results for them. It compares the addresses of objects and not
// their content, because Read keeps the objects of unchanged files. Therefore, the result may be false
// although nothing has changed; for example, it is always false if there is an API server.
func Same(s *Snapshot, d *Desired, before *Snapshot, was *Desired) bool {
	if s.API != nil || before.API != nil || s.Records != before.Records || len(s.Unreadable)+len(before.Unreadable) > 0 {
		return false
	}
	return maps.Equal(s.Undecided, before.Undecided) && slices.EqualFunc(s.Dirs, before.Dirs, sameDir) &&
		slices.EqualFunc(d.Pods, was.Pods, samePod) && maps.Equal(d.Replicas, was.Replicas) && sameShared(d.Shared, was.Shared)
}

func sameDir(a, b Dir) bool {
	return a.Path == b.Path && a.State == b.State && a.stale == b.stale && a.young == b.young && a.listed == b.listed &&
		slices.EqualFunc(a.Files, b.Files, func(f, g File) bool { return f.Path == g.Path && f.State == g.State && f.Objects == g.Objects })
}

func samePod(a, b Pod) bool {
	return a.Object == b.Object && a.Definition == b.Definition && a.Path == b.Path && a.Once == b.Once && a.Final == b.Final &&
		a.Own == b.Own && a.Referred == b.Referred
}

// sameShared compares the objects to which pods can refer. Claims can have other objects after each
// read, because Objects.ServeClaims replaces them.
func sameShared(a, b *manifest.Objects) bool {
	return sameObjects(a.ConfigMaps, b.ConfigMaps) && sameObjects(a.Secrets, b.Secrets) && sameObjects(a.Claims, b.Claims) &&
		sameObjects(a.Volumes, b.Volumes) && sameObjects(a.Services, b.Services) && sameObjects(a.RuntimeClasses, b.RuntimeClasses) &&
		sameObjects(a.PriorityClasses, b.PriorityClasses)
}

func sameObjects[T any](a, b map[string]*T) bool { return maps.Equal(a, b) }
