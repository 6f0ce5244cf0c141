# shellcheck shell=bash
# Part of hack/runtime: the configuration for containerd's version.

containerd_config() { # CONTAINERD
	local containerd=$1 version snapshotter=overlayfs systemd=false oom=false cdi=
	version=$("$containerd" --version | sed -E 's/.* v?([0-9]+\.[0-9]+)\..*/\1/')
	# overlayfs cannot have its upper directory on overlayfs (a CI container).
	[[ $(stat -f -c %T "$dir") != overlayfs ]] || snapshotter=native
	! on_systemd || systemd=true
	has_cap 24 || oom=true # CAP_SYS_RESOURCE; without it, an OOM score cannot be lowered
	[[ $version != 1.7 ]] || cdi=$'enable_cdi = true\n'
	[[ $version == 1.6 ]] || cdi+="cdi_spec_dirs = [\"$dir/cdi\"]"
	case $version in
	1.*) config_v2 ;;
	2.*) config_v3 ;;
	*) die "$containerd has an unknown version: $("$containerd" --version)" ;;
	esac
}

has_cap() { # BIT
	local caps
	caps=$(awk '$1 == "CapEff:" { print $2 }' /proc/self/status)
	(((16#$caps >> $1) & 1))
}

config_common() { # the runtime options are the same in every version
	cat <<-TOML
		root = "$dir/containerd"
		state = "$dir/state"
		oom_score = 0
		disabled_plugins = [$(quoted "$@")]
		[grpc]
		address = "$socket"
		[plugins."io.containerd.internal.v1.opt"]
		path = "$dir/opt"
	TOML
}

quoted() {
	local IFS=,
	printf '%s' "${*/%/\"}" | sed -E 's/(^|,)/\1"/g'
}

config_v2() {
	echo 'version = 2'
	config_common io.containerd.internal.v1.tracing io.containerd.tracing.processor.v1.otlp \
		io.containerd.snapshotter.v1.{aufs,btrfs,devmapper,zfs} io.containerd.nri.v1.nri
	local cri='plugins."io.containerd.grpc.v1.cri"'
	cat <<-TOML
		[$cri]
		sandbox_image = "$registry/pause:3.9"
		restrict_oom_score_adj = $oom
		netns_mounts_under_state_dir = true
		disable_tcp_service = true
		$cdi
		[$cri.cni]
		bin_dir = "/usr/lib/cni"
		conf_dir = "$dir/cni/conf"
		[$cri.containerd]
		snapshotter = "$snapshotter"
		[$cri.containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"
		[$cri.containerd.runtimes.runc.options]
		Root = "$dir/runc"
		SystemdCgroup = $systemd
	TOML
}

config_v3() {
	echo 'version = 3'
	config_common io.containerd.internal.v1.tracing io.containerd.tracing.processor.v1.otlp \
		io.containerd.snapshotter.v1.{blockfile,btrfs,devmapper,zfs} io.containerd.nri.v1.nri
	local images="plugins.'io.containerd.cri.v1.images'" runtime="plugins.'io.containerd.cri.v1.runtime'"
	local bin_dirs='bin_dirs = ["/usr/lib/cni"]'
	[[ $version != 2.0 ]] || bin_dirs='bin_dir = "/usr/lib/cni"'
	cat <<-TOML
		[$images]
		snapshotter = "$snapshotter"
		[$images.pinned_images]
		sandbox = "$registry/pause:3.9"
		[$runtime]
		restrict_oom_score_adj = $oom
		netns_mounts_under_state_dir = true
		$cdi
		[$runtime.cni]
		$bin_dirs
		conf_dir = "$dir/cni/conf"
		[$runtime.containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"
		[$runtime.containerd.runtimes.runc.options]
		Root = "$dir/runc"
		SystemdCgroup = $systemd
	TOML
}
