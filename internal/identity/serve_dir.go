package identity

import "path/filepath"

// ServeDir is the directory of the supervisor (Layout.Serve).
type ServeDir string

// Lock is the file whose lock a supervisor of this root directory holds while it runs.
func (d ServeDir) Lock() string { return filepath.Join(string(d), "lock") }

// APILink is a symlink to the API's socket. In releases without Layout.APISocket, the socket itself
// has this path.
func (d ServeDir) APILink() string { return filepath.Join(string(d), "podrun.sock") }

// StatusLink is a symlink to Layout.StatusSocket.
func (d ServeDir) StatusLink() string { return filepath.Join(string(d), "readonly.sock") }

// DirIdentities is the file with the data by which a supervisor recognizes its manifest
// directories.
func (d ServeDir) DirIdentities() string { return filepath.Join(string(d), "directories") }

// RemoteCopies is the directory with the last valid content of each URL from which a supervisor reads manifests.
func (d ServeDir) RemoteCopies() string { return filepath.Join(string(d), "remote") }

// Serials is the directory with the serial of the signed content that a supervisor took last from each source.
func (d ServeDir) Serials() string { return filepath.Join(string(d), "serials") }

// Sources is the directory of the Source files.
func (d ServeDir) Sources() string { return filepath.Join(string(d), "sources") }

// Source is the file that records which file in a supervisor's manifest directories defines a pod.
func (d ServeDir) Source(p Pod) string {
	return filepath.Join(d.Sources(), PairName(p.Namespace, p.Name))
}

// Pending is the file that records which definitions of pods a supervisor could not put into effect, and the reasons.
func (d ServeDir) Pending() string { return filepath.Join(string(d), "unstarted") }

// Pressure is the file that records, for each condition, the time until which a supervisor
// considers the node under pressure.
func (d ServeDir) Pressure() string { return filepath.Join(string(d), "pressure") }

// ShuttingDown is the file that exists while the host shuts down. It contains the boot ID.
func (d ServeDir) ShuttingDown() string { return filepath.Join(string(d), "shutdown") }

// ImageUse is the file that records, for each image, the time at which a supervisor last saw a container that
// uses the image.
func (d ServeDir) ImageUse() string { return filepath.Join(string(d), "images") }
