# shellcheck shell=bash
# Part of hack/runtime: processes. NAME.pid holds the pid and its start
# time, so that a PID that was reused since is never signaled.

started_at() { # PID: its start time in ticks after boot; fails when it is gone
	local stat fields
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	# Skip the second field, which may contain spaces.
	read -ra fields <<<"${stat##*) }"
	# A zombie has exited, whatever its parent does.
	[[ ${fields[0]} != Z ]] || return 1
	echo "${fields[19]}"
}

pid_of() { # NAME: the pid of what this script started under NAME; fails when it is gone
	local pid start now
	{ read -r pid start <"$dir/$1.pid"; } 2>/dev/null || return 1
	now=$(started_at "$pid") && [[ $now == "$start" ]] && echo "$pid"
}

launch() { # NAME COMMAND...: start in a session of its own, log to NAME.log
	local name=$1
	shift
	# fd 9 is the lock: a child that inherits it would keep it locked.
	setsid -- "$@" >>"$dir/$name.log" 2>&1 </dev/null 9<&- &
	echo "$! $(started_at $!)" >"$dir/$name.pid"
	disown
}

end() { # NAME: TERM, and KILL after 10 s
	local pid i
	pid=$(pid_of "$1") || return 0
	kill -TERM "$pid" 2>/dev/null || true
	for ((i = 0; i < 500; i++)); do
		pid_of "$1" >/dev/null || return 0
		sleep 0.02
	done
	kill -KILL "$pid" 2>/dev/null || true
}

# What is left when containerd was killed, or could not remove a pod: shims,
# processes of pods, sockets of shims (at a fixed place; address in 1.x,
# bootstrap.json later) and mounts.
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
	# Later mounts first: they may lie on earlier ones. mountinfo writes a space
	# as \040.
	awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac | while read -r mount; do
		umount -l -- "$(printf %b "${mount//\\/\\0}")" || true
	done
}

our_pids() { # shims of our socket first, then whatever is in the pods' cgroups
	local proc mount
	for proc in /proc/[0-9]*; do
		[[ $(cat "$proc/comm" 2>/dev/null) == containerd-shim* ]] || continue
		! tr '\0' '\n' 2>/dev/null <"$proc/cmdline" | grep -qxF -- "$socket" || echo "${proc#/proc/}"
	done
	while read -r mount; do
		find "$mount/$cgroup" "$mount/$cgroup.slice" -name cgroup.procs -exec cat {} + 2>/dev/null || true
	done < <(cgroup_mounts) | sort -un
}
