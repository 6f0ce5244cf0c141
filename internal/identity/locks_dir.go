package identity

import "path/filepath"

// LocksDir is the directory of the locks of pods, of the node and of Services (Layout.Locks).
type LocksDir string

// Pod is the file that podrun locks while it changes one pod. Its name has an underscore, so that it never collides
// with that of another file of the directory.
func (d LocksDir) Pod(p Pod) string {
	return filepath.Join(string(d), PairName(p.Namespace, p.Name))
}

// Node is the file that podrun locks during admission.
func (d LocksDir) Node() string { return filepath.Join(string(d), "node") }

// Services is the lock that podrun holds while it changes Services or their rules.
func (d LocksDir) Services() string { return filepath.Join(string(d), "services") }

// ServiceNames is the lock that podrun holds while it writes the names of Services to hosts files. A process that
// acquires this lock and Services must acquire this one last, and holds it only for milliseconds.
func (d LocksDir) ServiceNames() string { return filepath.Join(string(d), "service-names") }

// Workloads is the lock that podrun holds while it changes a file of Layout.Workloads.
func (d LocksDir) Workloads() string { return filepath.Join(string(d), "workloads") }

// Jobs is the lock that podrun holds while it changes a file of Layout.Jobs or Layout.CronJobs.
func (d LocksDir) Jobs() string { return filepath.Join(string(d), "jobs") }

// HoldersMark is an empty file. It exists if no lock file and no owner record contains the arguments of
// commands of an older podrun.
func (d LocksDir) HoldersMark() string { return filepath.Join(string(d), "holders") }
