package volume

import "encoding/json"

// SetupKind is the way a volume is set up. It is not the kind of the API's
// source: a configMap and a secret are both set up as files.
type SetupKind string

// The kinds of setup. Each has the field of Setup that is named like it, except
// SetupByRuntime, which has none.
const (
	SetupEmptyDir  SetupKind = "emptyDir"
	SetupFiles     SetupKind = "files"
	SetupHostPath  SetupKind = "hostPath"
	SetupLocal     SetupKind = "local"
	SetupNFS       SetupKind = "nfs"
	SetupByRuntime SetupKind = "runtime" // podrun makes nothing: the container runtime mounts the image
)

// Setup is how a volume is set up, as data: Apply reads Kind and the field of
// that kind; all other fields are nil. The zero value has no kind and cannot be
// applied.
type Setup struct {
	Kind     SetupKind
	EmptyDir *EmptyDir
	Files    *Files
	HostPath *HostPath
	Local    *Local
	NFS      *NFS
}

// MarshalJSON prints the struct of the kind alone: {} for SetupByRuntime, null for
// the zero value.
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
