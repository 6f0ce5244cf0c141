# shellcheck shell=bash
# Part of hack/runtime: processes. NAME.pid contains the PID of a process and its start time,
# so that this script never sends a signal to another process that has reused the PID.

started_at() { # PID: prints the start time of a process in ticks after boot; fails if the process has exited
	local stat fields
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	# Skip the second field, which may contain spaces.
	read -ra fields <<<"${stat##*) }"
	# A zombie has exited, even if its parent does not wait for it.
	[[ ${fields[0]} != Z ]] || return 1
	echo "${fields[19]}"
}

pid_of() { # NAME: prints the PID of the process that launch NAME started; fails if it has exited
	local pid start now
	{ read -r pid start <"$dir/$1.pid"; } 2>/dev/null || return 1
	now=$(started_at "$pid") && [[ $now == "$start" ]] && echo "$pid"
}

launch() { # NAME COMMAND...: starts a command in its own session, with its output in NAME.log
	local name=$1
	shift
	# fd 9 is the lock: a child that inherits it would keep it locked.
	setsid -- "$@" >>"$dir/$name.log" 2>&1 </dev/null 9<&- &
	echo "$! $(started_at $!)" >"$dir/$name.pid"
	disown
}

end() { # NAME: sends TERM, and KILL after 10 s
	local pid i
	pid=$(pid_of "$1") || return 0
	kill -TERM "$pid" 2>/dev/null || true
	for ((i = 0; i < 500; i++)); do
		pid_of "$1" >/dev/null || return 0
		sleep 0.02
	done
	kill -KILL "$pid" 2>/dev/null || true
}

# remove_leftovers removes what remains if containerd was killed or could not remove a pod:
# shims, processes of pods, mounts, and the sockets of shims, which are in a fixed directory
# (listed in address by containerd 1.x, in bootstrap.json by later versions).
remove_leftovers() {
	local pid mount shim_socket
	for pid in $(our_pids); do
		say "ending a leftover process: $pid $(cat "/proc/$pid/comm" 2>/dev/null)"
		kill -KILL "$pid" 2>/dev/null || true
	done
	cat "$dir"/state/io.containerd.runtime.v2.task/*/*/{address,bootstrap.json} 2>/dev/null |
		grep -aoE '/run/containerd/s/[0-9a-f]{64}' | while read -r shim_socket; do
		rm -f -- "$shim_socket"
	done || true
	# Unmount later mounts first, because they may be on top of earlier ones. In mountinfo,
	# \040 is a space.
	awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac | while read -r mount; do
		umount -l -- "$(printf %b "${mount//\\/\\0}")" || true
	done
}

our_pids() { # prints the PIDs of the shims that belong to our socket, then those of all processes in the pods' cgroups
	local proc mount
	for proc in /proc/[0-9]*; do
		[[ $(cat "$proc/comm" 2>/dev/null) == containerd-shim* ]] || continue
		! tr '\0' '\n' 2>/dev/null <"$proc/cmdline" | grep -qxF -- "$socket" || echo "${proc#/proc/}"
	done
	while read -r mount; do
		find "$mount/$cgroup" "$mount/$cgroup.slice" -name cgroup.procs -exec cat {} + 2>/dev/null || true
	done < <(cgroup_mounts) | sort -un
}
