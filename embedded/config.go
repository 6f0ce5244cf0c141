package embedded

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// PauseImage is the name of the sandbox image, which is in the archive. No registry can have this
// name (RFC 2606), so if containerd has lost the image, it cannot pull another one and run it as
// root. The tag changes when the program changes (embedded/bundle/pause). containerd's configuration
// refers to the image by digest (StartOptions.SandboxImage), because a tag can be moved.
const PauseImage = "pause.podrun.invalid/pause:1"

// Traits are the properties of the host on which the daemon's configuration depends.
type Traits struct {
	Overlay       bool // overlayfs works in the root directory
	SystemdCgroup bool // runc creates cgroups through systemd
	// the daemon may lower OOM scores (oomscore.MayLower)
	LowersOOM bool
	Handlers  []Handler // the runtime handlers in addition to runc
	Rootless  bool      // the daemon runs in the user namespace of podrun-rootless
	// Delegated are the controllers of the cgroups of an ordinary user's containers; nil if these have no cgroups
	Delegated []string
}

// ociCgroups is the value of PODRUN_OCI_CGROUPS: the controllers that containers have.
func (t Traits) ociCgroups() string {
	if len(t.Delegated) == 0 {
		return "none"
	}
	return strings.Join(t.Delegated, ",")
}

// snapshotter is the name of the snapshotter that containers use.
func (t Traits) snapshotter() string {
	if t.Overlay {
		return "overlayfs"
	}
	return "native"
}

// unusedPlugins are the containerd plugins that pods do not require. For example, NRI would
// open a socket that all runtimes of a host share.
var unusedPlugins = []string{
	"io.containerd.internal.v1.tracing", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
	"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs", "io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs",
	"io.containerd.nri.v1.nri", "io.containerd.monitor.container.v1.restart",
}

// verifierPlugin is the plugin that runs image verifiers. containerd accepts all images if its directory is missing or
// empty, so it is disabled unless podrun has installed a verifier.
const verifierPlugin = "io.containerd.image-verifier.v1.bindir"

// verifierTimeout is the time that containerd gives podrun, which limits the time of each of its programs.
const verifierTimeout = "10m"

// VerifiesImages reports whether the containerd that was started last verifies images.
func VerifiesImages(ctx context.Context, l Layout) (bool, error) {
	config, err := hostfile.ReadNoFollow(ctx, l.Config(), maxRecord)
	return strings.Contains(string(config), "\n[plugins.'"+verifierPlugin+"']\n"), err
}

// Config returns containerd's configuration (version 4, which 2.3 and later read). containerd reads
// no other file, so the host's own containerd and this one do not affect each other. Only the hosts
// of registries are configured in the standard directory (/etc/containerd/certs.d). Config is pure.
func Config(l Layout, o StartOptions, t Traits) []byte {
	score := 0
	if t.LowersOOM {
		score = oomScore
	}
	at := l.Unpacked(o.Digest)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by podrun at each start of its runtime.")
	line("version = 4")
	line("root = %s", quote(l.Containerd()))
	line("state = %s", quote(l.Tasks()))
	line("oom_score = %d", score)
	line("imports = []")
	unused := unusedPlugins
	if !o.VerifyImages {
		unused = append(slices.Clone(unused), verifierPlugin)
	}
	line("disabled_plugins = [%s]", quoteAll(unused))
	if o.VerifyImages {
		line("required_plugins = [\"io.containerd.grpc.v1.cri\", %s]", quote(verifierPlugin))
	} else {
		line("required_plugins = [\"io.containerd.grpc.v1.cri\"]")
	}
	line("[debug]")
	line("level = \"warn\"")
	line("[plugins.'io.containerd.server.v1.grpc']")
	line("address = %s", quote(l.Socket()))
	line("[plugins.'io.containerd.server.v1.ttrpc']")
	line("address = %s", quote(l.Socket()+".ttrpc"))
	line("[plugins.'io.containerd.shim.v1.manager']")
	line("socket_dir = %s", quote(l.Shims()))
	if o.VerifyImages {
		line("[plugins.'%s']", verifierPlugin)
		line("bin_dir = %s", quote(l.Verifier()))
		line("max_verifiers = 1")
		line("per_verifier_timeout = %s", quote(verifierTimeout))
	}
	images := "plugins.'io.containerd.cri.v1.images'"
	line("[%s]", images)
	line("snapshotter = %s", quote(t.snapshotter()))
	// This is podrun's default for pullStallTimeout.
	line("image_pull_progress_timeout = \"5m\"")
	line("[%s.pinned_images]", images)
	line(sandboxLine+"%s", quote(o.SandboxImage))
	line("[%s.registry]", images)
	line("config_path = \"/etc/containerd/certs.d\"")
	line("[%s]", runtimeSection)
	line("restrict_oom_score_adj = %t", !t.LowersOOM)
	line("netns_mounts_under_state_dir = true")
	if t.Rootless {
		line("disable_apparmor = true") // only root of the host may load profiles
		line("disable_hugetlb_controller = true")
	}
	line("[%s.cni]", runtimeSection)
	line("bin_dirs = [%s]", quote(filepath.Join(at, "cni")))
	line("conf_dir = %s", quote(l.NetworkDir()))
	line("use_internal_loopback = true")
	program := "runc"
	if t.Rootless {
		program = "podrun-oci" // it executes runc, or podrun-oci-create, which executes runc
	}
	for _, h := range append([]Handler{{Name: "runc", Program: filepath.Join(at, "bin", program)}}, t.Handlers...) {
		configureHandler(line, l, o.Digest, handlersSection, h, t.SystemdCgroup)
	}
	return []byte(b.String())
}

// sandboxLine is the begin of the line that names the sandbox image.
const sandboxLine = "sandbox = "

// ReadSandboxImage returns the reference to the sandbox image in the configuration of the containerd
// that was started last.
func ReadSandboxImage(ctx context.Context, l Layout) (string, error) {
	config, err := hostfile.ReadNoFollow(ctx, l.Config(), maxRecord)
	if err != nil {
		return "", err
	}
	return sandboxImageIn(string(config)), nil
}

// sandboxImageIn returns the reference to the sandbox image in a configuration. It is pure.
func sandboxImageIn(config string) string {
	_, line, _ := strings.Cut(config, "\n"+sandboxLine)
	line, _, _ = strings.Cut(line, "\n")
	return strings.Trim(line, `"`)
}

// oomScore is the OOM score of the daemon. It is the same as the kubelet's own, so that the
// kernel kills the daemon last.
const oomScore = -999

// quote returns a TOML basic string.
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

// remembered are the variables that specify proxies and certificates for registries. podrun
// records them, because the command that restarts the daemon, such as podrun serve after a
// crash, may not have them.
var remembered = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// inherited are the other variables that the daemon inherits from podrun. The variable
// container affects AppArmor support.
var inherited = []string{"container"}

// Remember returns the variables that podrun must record when a command starts the daemon, as
// lines NAME=VALUE. The argument own is the environment of the command. If own has a variable
// that was recorded before, it overrides the recorded one. If its value is empty, the variable
// is removed from the record. Remember drops all other lines of the record. Remember is pure.
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

// Environment returns the daemon's environment, which it derives from podrun's environment and
// the result of Remember. Containers must not depend on the environment of a CI job, a user's
// shell or a unit. PATH includes the directories in which containerd searches for optional
// programs such as apparmor_parser. GOGC=50 reduces the daemon's memory. The collections are
// more frequent, but cost little, because the daemon allocates little.
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
