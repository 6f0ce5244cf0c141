package discover

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/subid"
)

// examineUser returns what doctor checks for an ordinary user; nil for root.
func (m checkup) examineUser(rootDir string) *host.UserCheckup {
	if m.root != "/" || !rootless.User() {
		return nil
	}
	name, uid := rootless.UserName(), rootless.UID()
	c := &host.UserCheckup{UID: uid, UIDs: m.subordinate(subid.Users, name, uid), GIDs: m.subordinate(subid.Groups, name, uid),
		Programs: map[string]string{}, Forbidden: m.noUserNamespaces(), NetworkHome: isNetworkFS(rootDir), Undelegated: rootless.Undelegated()}
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if path := m.programs(program)[program]; path != "" {
			c.Programs[program] = path
		}
	}
	if r := rootless.ReadRecord(); r.Alive() {
		c.Running, c.SingleID = true, r.SingleIDReason
		c.Changed = rootless.ChangedIDs(r.UIDMap, c.UIDs, uid) || rootless.ChangedIDs(r.GIDMap, c.GIDs, uid)
	}
	if m.systemdIsInit() {
		lingers := m.exists(filepath.Join("var/lib/systemd/linger", name))
		c.Lingers = &lingers
	}
	return c
}

// subordinate reads a user's ranges of subordinate IDs.
func (m checkup) subordinate(kind subid.Kind, name string, uid int) []rootless.IDRange {
	all, _ := subid.Read(m.ctx, kind, name, uid) // after an error, there are no ranges
	return all
}

// userNamespaceSettings are the settings that forbid user namespaces, with the values that forbid them. The second one
// is Debian's, the third one Ubuntu's.
var userNamespaceSettings = []struct {
	sysctl string
	value  int64
}{{"user.max_user_namespaces", 0}, {"kernel.unprivileged_userns_clone", 0}, {"kernel.apparmor_restrict_unprivileged_userns", 1}}

// noUserNamespaces returns the setting that forbids an ordinary user to create user namespaces; "" if none does.
func (m checkup) noUserNamespaces() string {
	for _, s := range userNamespaceSettings {
		if value, known := m.sysctls(s.sysctl)[s.sysctl]; known && value == s.value {
			return s.sysctl + " = " + strconv.FormatInt(value, 10)
		}
	}
	return ""
}

// networkFS are the types of network file systems (linux/magic.h).
var networkFS = []int64{unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC}

// isNetworkFS reports whether the nearest existing parent of a path is on a network file system, on which overlayfs
// does not work.
func isNetworkFS(path string) bool {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		if err == nil {
			return slices.Contains(networkFS, int64(st.Type))
		}
		if above := filepath.Dir(path); above != path && os.IsNotExist(err) {
			path = above
			continue
		}
		return false
	}
}
