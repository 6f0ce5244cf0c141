package volume

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// bindOptions are the mount options that a bind mount can set independently of its source.
var bindOptions = map[string]uintptr{
	"rw": 0, "bind": 0, "defaults": 0, "ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// optionForm is the form of a mount option without a value or with one.
type optionForm int

const (
	flagOption     optionForm = iota + 1 // without a value
	valueOption                          // with a value
	optionalOption                       // with or without a value
)

// nfsOptions are the mount options of an NFS export: those of nfs(5), and the generic ones of mount(8) that change
// neither the source nor the type of the mount. The list does not contain the options that mount(8) implements itself
// (bind, move, loop, remount, helper, X-mount.subdir), because these can mount a path of the host, and SELinux
// contexts. bg and nofail are missing, because mount(8) then succeeds without a mount, and containers would write to
// the host's file system.
var nfsOptions = optionForms(
	"rw ro defaults suid nosuid dev nodev exec noexec atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime "+
		"lazytime nolazytime sync async dirsync _netdev "+
		"hard soft softerr softreval nosoftreval intr nointr fg lock nolock ac noac acl noacl cto nocto udp tcp rdma sharecache nosharecache resvport noresvport "+
		"nofsc nordirplus migration nomigration trunkdiscovery notrunkdiscovery posix noposix v3 v4 v4.0 v4.1 v4.2",
	"nfsvers vers minorversion mountvers proto mountproto port mountport mounthost mountaddr clientaddr rsize wsize bsize namlen timeo retrans retry "+
		"acregmin acregmax acdirmin acdirmax actimeo sec local_lock lookupcache nconnect max_connect write xprtsec",
	"fsc rdirplus")

func optionForms(flags, values, optional string) map[string]optionForm {
	out := map[string]optionForm{}
	for form, names := range map[optionForm]string{flagOption: flags, valueOption: values, optionalOption: optional} {
		for name := range strings.FieldsSeq(names) {
			out[name] = form
		}
	}
	return out
}

// optionValue matches the values of mount options: numbers, words, lists with colons, host names and IP addresses.
var optionValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._:\[][A-Za-z0-9._:%\[\]-]{0,254}$`) })

// splitOptions returns the options of a PersistentVolume. As in mount(8), one string may contain several.
func splitOptions(options []string) []string {
	var out []string
	for _, o := range options {
		out = append(out, strings.Split(o, ",")...)
	}
	return out
}

// optionProblem names the first option that an NFS mount does not support. It returns "" if there is none.
func (n *NFS) optionProblem() string {
	for _, option := range splitOptions(n.Options) {
		name, value, hasValue := strings.Cut(option, "=")
		form := nfsOptions[name]
		if form == 0 || hasValue && (form == flagOption || !optionValue().MatchString(value)) || !hasValue && form == valueOption {
			return fmt.Sprintf("the mount option %q is not supported for NFS", option)
		}
	}
	return ""
}

// optionProblem names the first option that a bind mount does not support. It returns "" if there is none.
func (l *Local) optionProblem() string {
	for _, option := range splitOptions(l.Options) {
		if _, known := bindOptions[option]; !known {
			return fmt.Sprintf("the mount option %q is not supported for a local volume", option)
		}
	}
	return ""
}
