package ownruntime

import (
	"path/filepath"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
)

// RootlessStatus is the state of podrun-rootless, which keeps the namespaces of an ordinary user.
type RootlessStatus struct {
	PID     int    `json:"pid"`
	Archive string `json:"archive,omitempty"` // the digest of its archive
	// Former is true if containerd, or the next one, is of another archive. podrun-rootless keeps running until
	// `podrun runtime down`.
	Former    bool   `json:"former,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"`    // the directory in which podrun creates the cgroups of pods
	NoCgroups string `json:"noCgroups,omitempty"` // why there is none
	// Metadata is true if pods can connect to the metadata service of a cloud.
	Metadata bool `json:"metadata,omitempty"`
}

// rootlessStatus returns the state of podrun-rootless; nil for root, and if it does not run.
func rootlessStatus(r *Runtime) *RootlessStatus {
	record := rootless.ReadRecord()
	if !record.Alive() {
		return nil
	}
	s := &RootlessStatus{PID: record.PID, Metadata: record.AllowMetadata}
	// The archive may be that of another root directory, which has the same namespaces.
	if name := filepath.Base(filepath.Dir(filepath.Dir(record.Program))); embedded.IsDigest(name) {
		s.Archive = name
	}
	s.Former = r.archive != nil && s.Archive != "" && s.Archive != r.archive.Digest
	s.Cgroup, s.NoCgroups = rootless.Cgroup()
	return s
}

// noteFormer prints that podrun-rootless was not upgraded with containerd: its end would end all connections of pods.
func noteFormer(r *Runtime) {
	if s := rootlessStatus(r); s != nil && s.Former {
		r.Warn(problem.List{{Object: "podrun-rootless", Warning: true,
			Message: "podrun-rootless still runs from the former archive, because its restart would end the connections of pods",
			Hint:    "delete the pods and run 'podrun runtime down' when this is possible"}})
	}
}
