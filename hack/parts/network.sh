# shellcheck shell=bash
# Part of hack/runtime: the network of the pods.

free_subnet() { # a /24 of 10.64.0.0/10 that no route of the machine touches
	local n=$((16#$id)) i subnet
	for ((i = 0; i < 256; i++, n += 257)); do
		subnet=10.$((64 + (n >> 8) % 64)).$((n % 256))
		[[ -n $(ip -4 route show table all root "$subnet.0/24") ]] || { echo "$subnet.0/24" && return; }
	done
	die "no free subnet in 10.64.0.0/10"
}

cni_config() {
	cat <<-JSON
		{"cniVersion": "0.4.0", "name": "$network", "plugins": [
		  {"type": "bridge", "bridge": "$bridge", "isDefaultGateway": true, "ipMasq": true, "hairpinMode": true,
		   "ipam": {"type": "host-local", "dataDir": "$dir/cni/addresses",
		            "ranges": [[{"subnet": "$1"}]]}},
		  {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}
		]}
	JSON
}

remove_network() {
	! ip link show "$bridge" >/dev/null 2>&1 || ip link delete "$bridge"
	remove_cached_results
	remove_pod_chains
	leave_shared
}

# What the runtimes of this script share on a machine: $shared holds a file for
# each that is up, and whether packets were forwarded before the first.
shared=/run/podrun-test

join_shared() {
	mkdir -p "$shared"
	[[ -e $shared/ip_forward ]] || cat /proc/sys/net/ipv4/ip_forward >"$shared/ip_forward"
	: >"$shared/$id"
}

leave_shared() { # the last one to leave undoes what the plugins did for all
	[[ -e $shared/$id ]] || return 0
	rm -f -- "$shared/$id"
	[[ $(ls "$shared") == ip_forward ]] || return 0
	remove_shared_chains
	# The bridge plugin turns forwarding on.
	cat "$shared/ip_forward" >/proc/sys/net/ipv4/ip_forward
	rm -rf -- "$shared"
}

remove_cached_results() { # what the plugins answered, by network and sandbox
	local result sandbox
	for result in /var/lib/cni/results/"$network"-*; do
		sandbox=${result##*/"$network"-}
		rm -f -- "$result" "/var/lib/cni/results/cni-loopback-${sandbox%-*}-lo"
	done
}

# remove_pod_chains removes the chains of pods that were never torn down. Every
# rule that leads to or lies in one names the network in its comment, quoted as
# iptables-restore reads it.
remove_pod_chains() {
	local rules chains
	rules=$(iptables-save -t nat 2>/dev/null | grep -F "name: \\\"$network\\\"") || return 0
	# The pods' chains: those jumped to, and those that hold rules, for a plugin
	# that was killed between the two leaves a chain that nothing jumps to.
	chains=$(grep -oE -- '(^-A|-j) CNI-(DN-)?[0-9a-f]+( |$)' <<<"$rules" | cut -d' ' -f2 | sort -u) || return 0
	{
		echo '*nat'
		grep -E -- "-j ($(paste -sd'|' <<<"$chains"))\$" <<<"$rules" | sed 's/^-A/-D/' || true
		echo "-F ${chains//$'\n'/$'\n'-F }"
		echo "-X ${chains//$'\n'/$'\n'-X }"
		echo COMMIT
	} | iptables-restore --noflush || say "iptables chains of $network are left"
}

# remove_shared_chains removes the port mapping plugin's own chains if no mapping uses
# them; the plugin creates them again when necessary.
remove_shared_chains() {
	local chain=CNI-HOSTPORT
	[[ $(iptables -t nat -S $chain-DNAT 2>/dev/null) == "-N $chain-DNAT" ]] || return 0
	{
		echo '*nat'
		iptables-save -t nat | grep -E -- "^-A (PREROUTING|OUTPUT|POSTROUTING) .*-j $chain-(DNAT|MASQ)\$" | sed 's/^-A/-D/'
		printf -- "-F $chain-%s\n" DNAT MASQ SETMARK
		printf -- "-X $chain-%s\n" DNAT MASQ SETMARK
		echo COMMIT
	} | iptables-restore --noflush || say "the chains $chain-* are left"
}
