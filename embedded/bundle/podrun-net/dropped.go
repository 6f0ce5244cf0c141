package main

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// warnDropped warns about firewalls that drop traffic of sandboxes, if the plugin cannot or
// must not change them.
func warnDropped(bridge string) {
	for _, id := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6, nftables.TableFamilyINet} {
		chains, err := readChains(id)
		if err != nil {
			// The kernel does not support the address family.
			continue
		}
		for _, c := range chains {
			if dropsForwarded(c) {
				warn("the nftables chain %s %s drops forwarded packets by default, including packets of pods: add rules to it that accept packets from and to %s", c.Table.Name, c.Name, bridge)
			}
		}
	}
	if legacyDrops() {
		warn("the FORWARD chain of iptables-legacy drops forwarded packets by default, including packets of pods: run iptables-legacy -I FORWARD -i %s -j ACCEPT; iptables-legacy -I FORWARD -o %s -j ACCEPT", bridge, bridge)
	}
}

// Constants from linux/netfilter_ipv4/ip_tables.h and linux/netfilter/x_tables.h.
const (
	getInfo    = 64 // IPT_SO_GET_INFO
	getEntries = 65 // IPT_SO_GET_ENTRIES
	nameLength = 32 // XT_TABLE_MAXNAMELEN

	infoLength = nameLength + 13*4
	// offset in ipt_getinfo; there is one for each of five hooks
	underflows = nameLength + 6*4
	// offset in ipt_getinfo of the size of the entries
	infoSize = nameLength + 12*4
	// offset in ipt_get_entries, with padding
	entries      = nameLength + 4 + 4
	targetOffset = 88         // in ipt_entry
	targetLength = 32         // xt_entry_target
	verdictDrop  = ^uint32(0) // -NF_DROP - 1
	maxEntries   = 64 << 20   // bytes
	// the number of the hook, which is its index
	forwardHook    = unix.NF_INET_FORWARD
	legacyNameFile = "/proc/net/ip_tables_names"
)

// legacyDrops reports whether the policy of the chain FORWARD in legacy iptables (not nftables)
// is DROP. If a table is missing, it does not query the table, because the kernel would then
// load it.
func legacyDrops() bool {
	names, err := os.ReadFile(legacyNameFile)
	if err != nil || !slices.Contains(strings.Fields(string(names)), filterTable) {
		return false
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	info := make([]byte, infoLength)
	copy(info, filterTable)
	if !getsockopt(fd, getInfo, info) {
		return false
	}
	size := binary.NativeEndian.Uint32(info[infoSize:])
	if size > maxEntries {
		return false
	}
	all := make([]byte, entries+size)
	copy(all, filterTable)
	binary.NativeEndian.PutUint32(all[nameLength:], size)
	if !getsockopt(fd, getEntries, all) {
		return false
	}
	return policyDrops(all[entries:], binary.NativeEndian.Uint32(info[underflows+4*forwardHook:]))
}

// policyDrops reports whether the last entry of a chain drops packets. This entry is the
// chain's policy.
func policyDrops(entries []byte, at uint32) bool {
	if uint64(at)+targetOffset+2 > uint64(len(entries)) {
		return false
	}
	verdict := uint64(at) + uint64(binary.NativeEndian.Uint16(entries[at+targetOffset:])) + targetLength
	if verdict+4 > uint64(len(entries)) {
		return false
	}
	return binary.NativeEndian.Uint32(entries[verdict:]) == verdictDrop
}

func getsockopt(fd, name int, buffer []byte) bool {
	length := uint32(len(buffer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_IP, uintptr(name),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&length)), 0)
	return errno == 0
}
