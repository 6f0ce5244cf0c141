package identity

import "path/filepath"

// SecretsDir is the directory in memory with the data that --secrets=memory keeps off the disk (Layout.Secrets). Its
// mode is 0700.
type SecretsDir string

// Pods is the directory that contains one directory for each pod whose Secrets are in memory.
func (d SecretsDir) Pods() string { return filepath.Join(string(d), "pods") }

// Pod is the directory with the file of a pod's complete checkpoint. The checkpoint on disk contains the name
// of this file.
func (d SecretsDir) Pod(uid string) string { return filepath.Join(d.Pods(), pathName(uid)) }

// LastGoods is the directory with the last good definitions of pods, one directory for each namespace/name.
func (d SecretsDir) LastGoods() string { return filepath.Join(string(d), "last-good") }

// LastGood is the directory with the last good definition of a pod. The history contains the name of its file.
func (d SecretsDir) LastGood(p Pod) string {
	return filepath.Join(d.LastGoods(), PairName(p.Namespace, p.Name))
}

// RemoteCopies corresponds to ServeDir.RemoteCopies.
func (d SecretsDir) RemoteCopies() string { return filepath.Join(string(d), "remote") }
