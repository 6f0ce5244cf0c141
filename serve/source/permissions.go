package source

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxExposed limits how many files of a directory a warning lists.
const maxExposed = 10

// errWorldWritable is the reason why podrun refuses a directory or a file that every user can write
// to. A manifest can start a privileged pod, so any user who can change a manifest is equivalent to
// root.
var errWorldWritable = errors.New("refused, because every user can write to it (fix: chmod o-w)")

// permissions are the users and groups other than root's that can change a file or a directory.
type permissions struct {
	all   bool
	owner uint32 // 0 if root is the owner
	group uint32 // 0 if the group cannot write to it, or is root's group
}

func permissionsOf(st *unix.Stat_t) permissions {
	w := permissions{all: st.Mode&unix.S_IWOTH != 0, owner: st.Uid}
	if st.Mode&unix.S_IWGRP != 0 {
		w.group = st.Gid
	}
	return w
}

// String describes the owner and the group; it is empty if only root can write.
func (w permissions) String() string {
	switch {
	case w.owner != 0 && w.group != 0:
		return fmt.Sprintf("user %d and group %d can write to it", w.owner, w.group)
	case w.owner != 0:
		return fmt.Sprintf("user %d owns it", w.owner)
	case w.group != 0:
		return fmt.Sprintf("group %d can write to it", w.group)
	}
	return ""
}

// refused returns why podrun does not read the file; nil if podrun reads it.
func (w permissions) refused(strict bool) error {
	switch text := w.String(); {
	case w.all:
		return errWorldWritable
	case strict && text != "":
		return fmt.Errorf("refused by strictSources, because %s (fix: chown root, chmod go-w)", text)
	}
	return nil
}

// expose records a file that podrun reads although users other than root can write to it.
func (l *listing) expose(name string, w permissions) {
	if text := w.String(); text != "" && !w.all && len(l.exposed) < maxExposed {
		l.exposed = append(l.exposed, name+": "+text)
	}
}
