// Nftables prints a line for each nftables table of the host. The checks in test/guest use it to
// find leftovers in guests without nft.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func main() {
	if err := list(); err != nil {
		fmt.Fprintln(os.Stderr, "nftables:", err)
		os.Exit(1)
	}
}

func list() error {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_UNSPEC, Version: nl.NFNETLINK_V0})
	messages, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return err
	}
	for _, m := range messages {
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			return err
		}
		for _, a := range attributes {
			if a.Attr.Type&nl.NLA_TYPE_MASK == unix.NFTA_TABLE_NAME {
				fmt.Printf("family %d table %s\n", m[0], strings.TrimRight(string(a.Value), "\x00"))
			}
		}
	}
	return nil
}
