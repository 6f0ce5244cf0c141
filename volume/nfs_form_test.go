package volume

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// checkedNFS returns the messages of Check for an export, and whether makeNFS runs mount(8).
func checkedNFS(t *testing.T, source corev1.NFSVolumeSource, options ...string) (string, bool) {
	t.Helper()
	plan := claimed(t, oneClaim, corev1.PersistentVolumeSource{NFS: &source}, func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = options })
	var messages []string
	for _, p := range Check(podOf(t, oneClaim), plan, nil, "") {
		messages = append(messages, p.Field+": "+p.Message)
	}
	if err := makePodDirs(plan); err != nil {
		t.Fatal(err)
	}
	ran := false
	err := makeNFS(t.Context(), plan.Volumes[0], plan.Volumes[0].Setup.NFS, func(context.Context, string, string, string, []string) error {
		ran = true
		return nil
	})
	if ran != (err == nil) {
		t.Errorf("%+v: mount(8) ran: %v, error %v", source, ran, err)
	}
	return strings.Join(messages, "; "), ran
}

// TestNFSForm covers text of a manifest that becomes an argument of mount(8). The API validates none of
// it except the first byte of the path.
func TestNFSForm(t *testing.T) {
	for _, server := range []string{"nfs", "nfs.example", "nfs.example.", "NFS-1.example", "my_server", "_nfs.example", "10.0.0.1", "010.0.0.1", "2001:db8::1", "[2001:db8::1]", "::", "::1",
		"fe80::1%eth0", "[fe80::1%eth0.100]", "::ffff:10.0.0.1", strings.Repeat("a", 63) + ".example"} {
		if message, ran := checkedNFS(t, corev1.NFSVolumeSource{Server: server, Path: "/export"}); message != "" || !ran {
			t.Errorf("server %q: %q", server, message)
		}
	}
	for _, server := range []string{"", "-T/tmp/fstab", "-T", "--bind", "-obind", "/", "/etc", "./a", "../etc", "a/b", "nfs.example:/x", "a:b", "[::1", "::1]", "[nfs.example]", "[10.0.0.1]", "[-T]", "[::1]x", "::1%", "::1%-T/x", "::1%a/b", "::1%a:b",
		"a b", "a\nb", "a\tb", "a,b", "a=b", "UUID=1", "LABEL=x", "a#b", "a'b", "a\\040b", "nfs.-a", "-nfs", "nfs-", "a..b", ".a", "ñfs", "a\x00b", "$HOME", "%s", "nfs//x", strings.Repeat("a", 64), strings.Repeat("a.", 200)} {
		message, ran := checkedNFS(t, corev1.NFSVolumeSource{Server: server, Path: "/export"})
		if !strings.Contains(message, "is not a host name or an IP address") || ran {
			t.Errorf("server %q: %q, mount(8) ran: %v", server, message, ran)
		}
	}
	for _, path := range []string{"/", "/export", "/a b", "/a,b", "/-T", "/a:b", "/ünïcode", "/a=b"} {
		if message, ran := checkedNFS(t, corev1.NFSVolumeSource{Server: "nfs", Path: path}); message != "" || !ran {
			t.Errorf("path %q: %q", path, message)
		}
	}
	for _, path := range []string{"", "export", "-T/x", "/a\nb", "/a\x00b", "/a\x7fb", "/" + strings.Repeat("a", 4096)} {
		if message, ran := checkedNFS(t, corev1.NFSVolumeSource{Server: "nfs", Path: path}); message == "" || ran {
			t.Errorf("path %q: %q, mount(8) ran: %v", path, message, ran)
		}
	}
}

// TestNFSOptions covers the mount options of a PersistentVolume. Options that mount(8) interprets itself
// can mount another source or run another program.
func TestNFSOptions(t *testing.T) {
	for _, option := range []string{"ro", "rw", "hard", "soft", "nfsvers=4.1", "vers=3", "v4.2", "proto=tcp6", "noatime", "nosuid", "nodev", "noexec", "sync", "async", "rsize=1048576", "timeo=600", "sec=krb5p", "sec=sys:krb5",
		"nolock", "local_lock=all", "lookupcache=none", "nconnect=8", "clientaddr=10.0.0.1", "mountaddr=fe80::1%eth0", "actimeo=0", "noresvport", "retry=2", "fsc", "_netdev", "defaults", "hard,nfsvers=4.1", "xprtsec=mtls"} {
		if message, ran := checkedNFS(t, corev1.NFSVolumeSource{Server: "nfs", Path: "/export"}, option); message != "" || !ran {
			t.Errorf("option %q: %q", option, message)
		}
	}
	for _, option := range []string{"", "bind", "rbind", "move", "loop", "loop=/dev/loop0", "remount", "X-mount.mkdir", "x-mount.subdir=/", "X-mount.idmap=/proc/1/ns/user", "helper=sh", "uhelper=x", "context=system_u", "fscontext=x", "user", "users", "owner", "group", "nofail", "bg", "auto", "noauto", "comment=x",
		"hard,bind", "ro,", ",bind", "ro,,bind", "BIND", "Ro", " bind", "bind ", "ro\nbind", "ro bind", "vers", "vers=", "vers=4,bind", "vers=-T", "vers=4 bind", "ro=1", "hard=bind", "-T", "--bind", "-o", "nfsvers=\"4,bind\"", "sec=\"", "make-shared", "rshared", "private", "addr=1.2.3.4", "offset=1", "sizelimit=1",
		"verity.hashdevice=x", "mountaddr=/etc", "bind=", "rsize=\x00", "v4.2=bind", "v", "v4.x"} {
		message, ran := checkedNFS(t, corev1.NFSVolumeSource{Server: "nfs", Path: "/export"}, option)
		if !strings.Contains(message, "mount option") || ran {
			t.Errorf("option %q: %q, mount(8) ran: %v", option, message, ran)
		}
	}
}

// TestLocalOptions checks that planning reports the mount options that a local volume does not support.
func TestLocalOptions(t *testing.T) {
	for option, want := range map[string]bool{"ro": true, "noexec,nosuid": true, "bind": true, "rbind": false, "move": false, "loop": false, "sync": false, "hard": false, "remount": false, "": false, "x-mount.mkdir": false} {
		plan := claimed(t, oneClaim, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv"}}, func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{option} })
		problems := Check(podOf(t, oneClaim), plan, map[string]Path{"/srv": {Mode: 1 << 31}}, "")
		if (len(problems) == 0) != want {
			t.Errorf("option %q: %v", option, problems)
		}
	}
}
