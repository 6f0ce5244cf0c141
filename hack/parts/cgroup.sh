# shellcheck shell=bash
# Part of hack/runtime: the cgroup root of the pods.

on_systemd() {
	[[ $(cat /proc/1/comm) == systemd && $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]
}

make_cgroup() {
	if on_systemd; then
		systemctl start "$cgroup.slice"
		return
	fi
	local parent root
	while read -r parent; do
		root=$parent/$cgroup
		mkdir -p "$root"
		# A new cpuset of cgroup v1 is empty. It accepts processes only when it has CPUs and
		# memory nodes.
		if [[ -f $root/cpuset.cpus && ! -f $root/cgroup.controllers ]]; then
			cat "$parent/cpuset.cpus" >"$root/cpuset.cpus"
			cat "$parent/cpuset.mems" >"$root/cpuset.mems"
		fi
	done < <(cgroup_mounts)
}

cgroup_mounts() {
	awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/self/mounts | sort -u
}

remove_cgroup() {
	local mount root i
	! on_systemd || systemctl stop "$cgroup.slice" 2>/dev/null || true
	while read -r mount; do
		for root in "$mount/$cgroup" "$mount/$cgroup.slice"; do
			# A killed process leaves its cgroup with a delay.
			for ((i = 0; i < 100; i++)); do
				[[ -d $root ]] || break
				find "$root" -depth -type d -exec rmdir {} \; 2>/dev/null || sleep 0.02
			done
			[[ ! -d $root ]] || say "cgroup $root is still in use"
		done
	done < <(cgroup_mounts)
}
