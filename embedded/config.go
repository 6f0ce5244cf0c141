package embedded

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// PauseImage is the sandbox image, which is in the archive. No registry can have this
// name (RFC 2606): a containerd that lost the image must not pull another one, as root,
// from whoever serves it. Its tag changes with the program (embedded/bundle/pause).
const PauseImage = "pause.podrun.invalid/pause:1"

// Traits are what the daemon's configuration depends on.
type Traits struct {
	Overlay       bool // overlayfs works in the root directory
	SystemdCgroup bool // runc asks systemd for control groups
	LowersOOM     bool // CAP_SYS_RESOURCE: OOM scores may be lowered
}

// unusedPlugins are those of containerd that no pod needs. NRI would open a socket that
// all runtimes of a host share.
var unusedPlugins = []string{
	"io.containerd.internal.v1.tracing", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
	"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs", "io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs",
	"io.containerd.nri.v1.nri", "io.containerd.image-verifier.v1.bindir", "io.containerd.monitor.container.v1.restart",
}

// Config is containerd's configuration (version 4, which 2.3 and later read). It reads
// no other file, so that a containerd of the host's own is not affected, and does not
// affect this one; only registry hosts are configured where every containerd has them
// (/etc/containerd/certs.d). It is pure.
func Config(l Layout, digest string, t Traits) []byte {
	snapshotter, score := "overlayfs", 0
	if !t.Overlay {
		snapshotter = "native"
	}
	if t.LowersOOM {
		score = oomScore
	}
	at := l.Unpacked(digest)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by podrun at each start of its runtime.")
	line("version = 4")
	line("root = %s", quote(l.Containerd()))
	line("state = %s", quote(l.Tasks()))
	line("oom_score = %d", score)
	line("imports = []")
	line("required_plugins = [\"io.containerd.grpc.v1.cri\"]")
	line("disabled_plugins = [%s]", quoteAll(unusedPlugins))
	line("[debug]")
	line("level = \"warn\"")
	line("[plugins.'io.containerd.server.v1.grpc']")
	line("address = %s", quote(l.Socket()))
	line("[plugins.'io.containerd.server.v1.ttrpc']")
	line("address = %s", quote(l.Socket()+".ttrpc"))
	line("[plugins.'io.containerd.shim.v1.manager']")
	line("socket_dir = %s", quote(l.Shims()))
	images := "plugins.'io.containerd.cri.v1.images'"
	line("[%s]", images)
	line("snapshotter = %s", quote(snapshotter))
	line("image_pull_progress_timeout = \"5m\"") // podrun's default of pullStallTimeout
	line("[%s.pinned_images]", images)
	line("sandbox = %s", quote(PauseImage))
	line("[%s.registry]", images)
	line("config_path = \"/etc/containerd/certs.d\"")
	runtime := "plugins.'io.containerd.cri.v1.runtime'"
	line("[%s]", runtime)
	line("restrict_oom_score_adj = %t", !t.LowersOOM)
	line("netns_mounts_under_state_dir = true")
	line("[%s.cni]", runtime)
	line("bin_dirs = [%s]", quote(filepath.Join(at, "cni")))
	line("conf_dir = %s", quote(l.NetworkDir()))
	line("use_internal_loopback = true")
	line("[%s.containerd.runtimes.runc]", runtime)
	line("runtime_type = \"io.containerd.runc.v2\"")
	line("runtime_path = %s", quote(filepath.Join(at, "bin", "containerd-shim-runc-v2")))
	line("[%s.containerd.runtimes.runc.options]", runtime)
	line("BinaryName = %s", quote(filepath.Join(at, "bin", "runc")))
	line("Root = %s", quote(l.Runc()))
	line("SystemdCgroup = %t", t.SystemdCgroup)
	return []byte(b.String())
}

// oomScore of the daemon, which is the kubelet's own: the kernel kills it last.
const oomScore = -999

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoteAll(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}

// remembered are the variables that say how registries are reached and which certificates
// count. They are recorded, because the command that starts the daemon again, such as
// podrun serve after a crash, may have none of them.
var remembered = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// inherited are the variables of podrun's environment that the daemon gets in addition:
// AppArmor support depends on whether this is a container.
var inherited = []string{"container"}

// Remember returns the recorded variables, one NAME=VALUE a line, after a start by a command
// whose environment is own: its variables replace those of the same name, and an empty one
// removes it. Other lines of the record are dropped. It is pure.
func Remember(record string, own []string) string {
	values := map[string]string{}
	for _, v := range slices.Concat(strings.Split(record, "\n"), own) {
		name, value, ok := strings.Cut(strings.TrimSuffix(v, "\r"), "=")
		if ok && slices.Contains(remembered, name) && !strings.ContainsAny(value, "\n\x00") {
			values[name] = value
		}
	}
	var b strings.Builder
	for _, name := range remembered {
		if values[name] != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, values[name])
		}
	}
	return b.String()
}

// Environment is the daemon's, made of podrun's and of what Remember has returned: nothing
// of a CI job, a user's shell or a unit may follow containers around. PATH has the directories in which containerd
// looks for helpers that a host may have, such as apparmor_parser. GOGC keeps the
// daemon's memory small: it does little.
func Environment(l Layout, digest, record string, own []string) []string {
	env := []string{
		"PATH=" + filepath.Join(l.Unpacked(digest), "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"GOGC=50",
	}
	for _, v := range own {
		if name, _, ok := strings.Cut(v, "="); ok && slices.Contains(inherited, name) {
			env = append(env, v)
		}
	}
	for line := range strings.Lines(record) {
		env = append(env, strings.TrimSuffix(line, "\n"))
	}
	return env
}
