package shop

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rules are the nftables rules of a table, as the kernel sends them. Guests have no program nft.
type rules [][]byte

// readRules reads the rules of an IPv4 table.
func readRules(table string) (out rules, err error) {
	var messages [][]byte
	// The kernel interrupts the dump if the rules change while it sends them.
	for range 10 {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_IPV4, Version: nl.NFNETLINK_V0})
		req.AddData(nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(table)))
		if messages, err = req.Execute(unix.NETLINK_NETFILTER, 0); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of nftables: %w", err)
	}
	for _, m := range messages {
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			return nil, fmt.Errorf("read the rules of nftables: %w", err)
		}
		for _, a := range attributes {
			if a.Attr.Type&nl.NLA_TYPE_MASK == unix.NFTA_RULE_EXPRESSIONS {
				out = append(out, a.Value)
			}
		}
	}
	return out, nil
}

// have reports whether an expression has this address: an attribute NFTA_DATA_VALUE with its four bytes. The
// rules of Services contain the address of a pod only as the new destination of a connection.
func (r rules) have(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return false
	}
	value := nl.NewRtAttr(unix.NFTA_DATA_VALUE, ip.AsSlice()).Serialize()
	for _, one := range r {
		if bytes.Contains(one, value) {
			return true
		}
	}
	return false
}
