package identity

import "path/filepath"

// ServicesDir is the directory of the Services, one file per namespace/name (Layout.Services). It exists if podrun
// has ever stored a Service.
type ServicesDir string

// Service is the file with a Service, its virtual IPs and its node ports.
func (d ServicesDir) Service(id Pod) string {
	return filepath.Join(string(d), PairName(id.Namespace, id.Name))
}

// Ranges is the file with the ranges of virtual IPs.
func (d ServicesDir) Ranges() string { return filepath.Join(string(d), "ranges.json") }

// Names is the file with the names of Services for the pods' hosts files.
func (d ServicesDir) Names() string { return filepath.Join(string(d), "names.json") }
