package volume

import "encoding/json"

// SetupKind is the way in which podrun sets up a volume. This is not the same as the kind of the
// volume source in the API: for example, podrun sets up configMap and secret volumes in the same
// way, as files.
type SetupKind string

// The kinds of setup. Each kind uses the field of Setup with the same name, except SetupByRuntime,
// which uses none.
const (
	SetupEmptyDir SetupKind = "emptyDir"
	SetupFiles    SetupKind = "files"
	SetupHostPath SetupKind = "hostPath"
	SetupLocal    SetupKind = "local"
	SetupNFS      SetupKind = "nfs"
	// podrun creates nothing, because the container runtime mounts the image
	SetupByRuntime SetupKind = "runtime"
)

// Setup describes, as data, how podrun sets up a volume. Apply reads Kind and the field of that
// kind. All other fields are nil. The zero value has no kind and cannot be applied.
type Setup struct {
	Kind     SetupKind
	EmptyDir *EmptyDir
	Files    *Files
	HostPath *HostPath
	Local    *Local
	NFS      *NFS
}

// MarshalJSON marshals only the field of the kind. The result is {} for SetupByRuntime, and
// null for the zero value.
func (s Setup) MarshalJSON() ([]byte, error) {
	switch s.Kind {
	case SetupEmptyDir:
		return json.Marshal(s.EmptyDir)
	case SetupFiles:
		return json.Marshal(s.Files)
	case SetupHostPath:
		return json.Marshal(s.HostPath)
	case SetupLocal:
		return json.Marshal(s.Local)
	case SetupNFS:
		return json.Marshal(s.NFS)
	case SetupByRuntime:
		return []byte("{}"), nil
	}
	return []byte("null"), nil
}
