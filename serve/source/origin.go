package source

import (
	"path/filepath"

	"github.com/podrun/podrun/manifest"
)

// origins finds the files from which the objects of this host came.
type origins struct {
	snapshot *Snapshot
	origin   func(kind, key string) string
	// definitions are those of all files except Missing ones, by kind and name.
	definitions map[string][]definition
	// incomplete is true if the content of a file is unknown.
	incomplete bool
}

func newOrigins(s *Snapshot, origin func(kind, key string) string) *origins {
	o := &origins{snapshot: s, origin: origin, definitions: map[string][]definition{}}
	if origin == nil {
		return o
	}
	for i := range s.Dirs {
		d := &s.Dirs[i]
		o.incomplete = o.incomplete || d.State != Present || d.stale || d.young
		for j := range d.Files {
			f := &d.Files[j]
			o.incomplete = o.incomplete || f.Objects == nil
			if f.Objects == nil || f.State == Missing {
				continue
			}
			for _, one := range definitions(f) {
				o.definitions[one.kind+" "+one.key] = append(o.definitions[one.kind+" "+one.key], one)
			}
		}
	}
	return o
}

// definition is one object of a file. Only objects that have an origin on a host have definitions.
type definition struct {
	kind, key string
	path      string // File.Path
	at        manifest.Position
}

// definitions returns the definitions of a file.
func definitions(f *File) (out []definition) {
	add := func(kind string, p *manifest.Pod) {
		out = append(out, definition{kind, keyOf(p), f.Path, p.Position})
	}
	for i := range f.Objects.Pods {
		add("Pod", &f.Objects.Pods[i])
	}
	for i := range f.Objects.Jobs {
		add("Job", &f.Objects.Jobs[i].Template)
	}
	for i := range f.Objects.CronJobs {
		add("CronJob", &f.Objects.CronJobs[i].Template)
	}
	return out
}

// of returns the place of the definition that has precedence over that of f, because the object on this host came
// from there. It returns "" if f has precedence.
func (o *origins) of(f *File, kind, key string) string {
	defined := o.definitions[kind+" "+key]
	if len(defined) == 0 || f.State == Missing || len(defined) < 2 && !o.incomplete {
		return ""
	}
	origin := o.origin(kind, key)
	if origin == "" || origin == f.Path {
		return ""
	}
	for _, other := range defined {
		if other.path == origin {
			return place(other.at)
		}
	}
	if o.unknown(origin) {
		return printable(origin)
	}
	return ""
}

// unknown reports whether the file at path may exist in a source of the snapshot although its content is
// unknown.
func (o *origins) unknown(path string) bool {
	for i := range o.snapshot.Dirs {
		d := &o.snapshot.Dirs[i]
		if d.Path == path || d.Path == filepath.Dir(path) {
			may, _ := o.snapshot.MayDefine(path)
			return may
		}
	}
	return false
}

// The turns in which MergeFrom takes the files.
const (
	first  = iota
	copied // the file defines an object for which another file has precedence
	absent
	turns
)

// turn returns the turn in which MergeFrom takes a file.
func (o *origins) turn(f *File) int {
	if f.State == Missing {
		return absent
	}
	for _, one := range definitions(f) {
		if o.of(f, one.kind, one.key) != "" {
			return copied
		}
	}
	return first
}
