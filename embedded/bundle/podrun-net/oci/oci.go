// Package oci creates the containers of an OCI runtime for a user namespace: it changes the configuration of a container
// before runc reads it. containerd writes configurations for the initial user namespace, and cannot be
// configured otherwise.
package oci

import (
	"slices"
	"strings"
)

// Host describes where runc runs.
type Host struct {
	// NoCgroups: the user may not create control groups.
	NoCgroups bool
	// Controllers are the controllers of the user's control groups; nil for all.
	Controllers []string
	// SingleID: the user namespace maps only the ID 0.
	SingleID bool
	// Mqueue: the host has /dev/mqueue.
	Mqueue bool
	// Own reports whether a path is that of a namespace of this process.
	Own func(kind, path string) bool
}

// object is an object of JSON. The configuration is not decoded into a struct, so that it keeps fields
// that this program does not know.
type object = map[string]any

// Rewrite changes a configuration (config.json of the OCI runtime specification). It is pure apart from
// h.Own.
func Rewrite(spec object, h Host) {
	linux, _ := spec["linux"].(object)
	if linux == nil {
		return
	}
	if h.NoCgroups {
		// containerd sets CPU shares for each sandbox, which runc refuses without cgroups.
		delete(linux, "resources")
		delete(linux, "cgroupsPath")
	} else if h.Controllers != nil {
		dropControllers(linux, h.Controllers)
	}
	kept := dropOwn(linux, h.Own)
	rewriteMounts(spec, kept, h)
	if h.SingleID {
		rewriteIDs(spec)
	}
}

// resources are the keys of linux.resources and those of its objects, with the controller of each. Device rules have
// none on cgroup v2.
var resources = map[string]string{
	"memory": "memory", "pids": "pids", "blockIO": "io", "hugepageLimits": "hugetlb", "rdma": "rdma",
	"cpu.cpus": "cpuset", "cpu.mems": "cpuset",
	"cpu.shares": "cpu", "cpu.quota": "cpu", "cpu.burst": "cpu", "cpu.period": "cpu", "cpu.realtimeRuntime": "cpu", "cpu.realtimePeriod": "cpu", "cpu.idle": "cpu",
}

// dropControllers removes the resources whose controllers the user does not have: runc would fail to write files that
// do not exist.
func dropControllers(linux object, have []string) {
	all, _ := linux["resources"].(object)
	for key, controller := range resources {
		if slices.Contains(have, controller) {
			continue
		}
		outer, inner, nested := strings.Cut(key, ".")
		if !nested {
			delete(all, outer)
		} else if values, ok := all[outer].(object); ok {
			delete(values, inner)
		}
	}
	unified, _ := all["unified"].(object)
	for key := range unified { // memory.swap.max, …
		if controller, _, _ := strings.Cut(key, "."); !slices.Contains(have, controller) && controller != "cgroup" {
			delete(unified, key)
		}
	}
}

// dropOwn removes the namespaces in which this process is: the containers of a hostNetwork pod get the
// path of the sandbox's network namespace, which is the host's, and only root of the host may enter it.
// Without an entry, a container has the namespace of runc. dropOwn returns the types of the others.
func dropOwn(linux object, own func(kind, path string) bool) []string {
	all, _ := linux["namespaces"].([]any)
	var kinds []string
	var kept []any
	for _, v := range all {
		n, _ := v.(object)
		kind, _ := n["type"].(string)
		if path, _ := n["path"].(string); path != "" && own(kind, path) {
			continue
		}
		kinds, kept = append(kinds, kind), append(kept, v)
	}
	if len(kept) != len(all) {
		linux["namespaces"] = kept
	}
	return kinds
}

// rewriteMounts replaces file systems that belong to a namespace of the host. The kernel permits to
// mount them only with a namespace of U, so the container gets the host's as a bind mount.
func rewriteMounts(spec object, namespaces []string, h Host) {
	all, _ := spec["mounts"].([]any)
	var kept []any
	for _, v := range all {
		m, _ := v.(object)
		kind, _ := m["type"].(string)
		switch {
		case kind == "sysfs" && !slices.Contains(namespaces, "network"):
			bind(m, "/sys")
		case kind == "proc" && !slices.Contains(namespaces, "pid"):
			bind(m, "/proc")
		case kind == "mqueue" && !slices.Contains(namespaces, "ipc"):
			if !h.Mqueue {
				continue
			}
			bind(m, "/dev/mqueue")
		case kind == "devpts" && h.SingleID:
			removeOptions(m, func(o string) bool { return strings.HasPrefix(o, "gid=") })
		}
		kept = append(kept, v)
	}
	if all != nil {
		spec["mounts"] = kept
	}
}

func bind(m object, source string) {
	m["type"], m["source"] = "bind", source
	options, _ := m["options"].([]any)
	m["options"] = append([]any{"rbind"}, options...)
}

func removeOptions(m object, gone func(string) bool) {
	options, _ := m["options"].([]any)
	m["options"] = slices.DeleteFunc(slices.Clone(options), func(o any) bool {
		text, _ := o.(string)
		return gone(text)
	})
}

// sandboxType is the annotation with which containerd marks sandboxes.
const typeAnnotation, sandboxType = "io.kubernetes.cri.container-type", "sandbox"

// rewriteIDs removes supplementary groups, which the kernel forbids to set with a single ID, and runs
// the process of a sandbox, whose image has another user, as user 0. Other containers with another user
// fail.
func rewriteIDs(spec object) {
	process, _ := spec["process"].(object)
	user, _ := process["user"].(object)
	if user == nil {
		return
	}
	delete(user, "additionalGids")
	annotations, _ := spec["annotations"].(object)
	if annotations[typeAnnotation] == sandboxType {
		user["uid"], user["gid"] = 0, 0
	}
}
