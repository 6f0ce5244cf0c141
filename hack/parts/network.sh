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

# $shared is for all runtimes that hack/runtime has started on this machine: it contains a
# file for each of them, and the value of ip_forward before the first one was started.
shared=/run/podrun-test

join_shared() {
	mkdir -p "$shared"
	[[ -e $shared/ip_forward ]] || cat /proc/sys/net/ipv4/ip_forward >"$shared/ip_forward"
	: >"$shared/$id"
}

leave_shared() { # the last runtime undoes what the plugins have done for all
	[[ -e $shared/$id ]] || return 0
	rm -f -- "$shared/$id"
	[[ $(ls "$shared") == ip_forward ]] || return 0
	remove_shared_chains
	# The bridge plugin has enabled forwarding.
	cat "$shared/ip_forward" >/proc/sys/net/ipv4/ip_forward
	rm -rf -- "$shared"
}

remove_cached_results() { # the results of the plugins, by network and sandbox
	local result sandbox
	for result in /var/lib/cni/results/"$network"-*; do
		sandbox=${result##*/"$network"-}
		rm -f -- "$result" "/var/lib/cni/results/cni-loopback-${sandbox%-*}-lo"
	done
}

# remove_pod_chains removes the chains of pods whose network was never torn down. Each rule
# that jumps to such a chain, or is in it, has the network's name in its comment, quoted for
# iptables-restore.
remove_pod_chains() {
	local rules chains
	rules=$(iptables-save -t nat 2>/dev/null | grep -F "name: \\\"$network\\\"") || return 0
	# Find the pods' chains by the rules that jump to them and by the rules in them: if a
	# plugin was killed between the two, no rule jumps to its chain.
	chains=$(grep -oE -- '(^-A|-j) CNI-(DN-)?[0-9a-f]+( |$)' <<<"$rules" | cut -d' ' -f2 | sort -u) || return 0
	{
		echo '*nat'
		grep -E -- "-j ($(paste -sd'|' <<<"$chains"))\$" <<<"$rules" | sed 's/^-A/-D/' || true
		echo "-F ${chains//$'\n'/$'\n'-F }"
		echo "-X ${chains//$'\n'/$'\n'-X }"
		echo COMMIT
	} | iptables-restore --noflush || say "the iptables chains of $network could not be removed"
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
	} | iptables-restore --noflush || say "the iptables chains $chain-* could not be removed"
}
