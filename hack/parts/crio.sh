# shellcheck shell=bash
# Part of hack/runtime: the CRI-O that PODRUN_CRIO names (hack/crio).

check_crio() { # checks the settings for the programs that are in no Debian package
	local name missing=()
	for name in PODRUN_CRIO PODRUN_PINNS; do
		[[ -n ${!name:-} ]] || missing+=("\$$name")
	done
	((${#missing[@]} == 0)) || die "${missing[*]} not set: no package of CRI-O exists for this system; set PODRUN_CRIO to a program crio and PODRUN_PINNS to its pinns"
	for name in PODRUN_CRIO PODRUN_PINNS; do
		command -v "${!name}" >/dev/null || die "$name: there is no program ${!name}"
	done
}

# The path of a console's socket contains the container's ID. It can have at most 107
# characters.
crio_run=/run/prt-$id

crio_config() { # prints CRI-O's configuration, and writes the other files that CRI-O reads
	local driver=overlay manager=cgroupfs monitor=pod
	# overlay cannot have its upper directory on overlayfs (a CI container).
	[[ $(stat -f -c %T "$dir") != overlayfs ]] || driver=vfs
	! on_systemd || { manager=systemd && monitor=system.slice; }
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$dir/policy.json"
	# Scripts start registries on ports below 20000 (freePort). CRI-O uses plain HTTP only for
	# registries that are configured with their ports.
	{
		echo 'unqualified-search-registries = ["docker.io"]'
		printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$registry" 127.0.0.1:{10000..19999}
	} >"$dir/registries.conf"
	cat <<-TOML
		[crio]
		root = "$dir/storage"
		runroot = "$dir/storage-run"
		storage_driver = "$driver"
		log_dir = "$dir/logs/crio"
		version_file = "$crio_run/version"
		version_file_persist = "$dir/version"
		clean_shutdown_file = "$dir/clean.shutdown"
		[crio.api]
		listen = "$socket"
		stream_address = "127.0.0.1"
		stream_port = "0"
		[crio.image]
		pause_image = "$registry/pause:3.9"
		signature_policy = "$dir/policy.json"
		signature_policy_dir = "$dir/policies"
		namespaced_auth_dir = "$dir/auth"
		[crio.network]
		network_dir = "$dir/cni/conf"
		plugin_dirs = ["/usr/lib/cni"]
		[crio.nri]
		enable_nri = false
		[crio.runtime]
		cgroup_manager = "$manager"
		default_runtime = "runc"
		pinns_path = "$(command -v "$PODRUN_PINNS")"
		namespaces_dir = "$crio_run/ns"
		container_exits_dir = "$crio_run/exits"
		container_attach_socket_dir = "$crio_run/attach"
		hooks_dir = []
		cdi_spec_dirs = ["$dir/cdi"]
		[crio.runtime.runtimes.runc]
		runtime_path = "$(command -v runc)"
		runtime_type = "oci"
		runtime_root = "$dir/runc"
		monitor_path = "$(command -v conmon)"
		monitor_cgroup = "$monitor"
	TOML
}

launch_crio() { # CRIO
	mkdir -p "$crio_run"
	launch crio "$1" --config "$dir/crio.toml" --config-dir "" --registries-conf "$dir/registries.conf" --registries-conf-dir "$dir/registries.conf.d"
}

remove_crio_run() {
	local mount
	awk -v dir="$crio_run/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac | while read -r mount; do
		umount -l -- "$mount" || true
	done
	rm -rf --one-file-system -- "$crio_run"
	# All CRI-O processes of a host store their host ports in this table, and do not remove it
	# when they exit.
	local family table
	for family in ip ip6; do
		table=$(nft list table "$family" crio-hostports 2>/dev/null) || continue
		grep -q 'elements = ' <<<"$table" || pgrep -x -r D,R,S crio >/dev/null || nft delete table "$family" crio-hostports
	done
}
