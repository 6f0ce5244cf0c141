package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/netdump"
	"github.com/podrun/podrun/internal/podnetns"
)

// readOwn reads the attachments to a network. It skips sandboxes without a network namespace, such
// as those that existed before a reboot.
func readOwn(ctx context.Context, dir, network string) ([]ownAttachment, error) {
	files, err := hostfile.Entries(dir, network+"-", "")
	if err != nil {
		return nil, err
	}
	var out []ownAttachment
	for _, path := range files[:min(len(files), maxResults)] {
		data, err := hostfile.ReadNoFollow(ctx, path, maxResult)
		if err != nil {
			// The entry was removed after it was listed, or is not a file.
			continue
		}
		a, ok := parseOwn(data, network)
		if !ok {
			continue
		}
		var fs unix.Statfs_t
		if unix.Statfs(a.netns, &fs) == nil && fs.Type == unix.NSFS_MAGIC {
			out = append(out, a)
		}
	}
	return out, nil
}

// readOwnRules reads the comments of the rules for a network.
func readOwnRules(bridge string) (ownRules, error) {
	r := ownRules{attachments: map[uint8][]string{}, forward: map[uint8][]string{}}
	for _, family := range []uint8{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
		comments, err := readComments(family, cniplugin.Own+"-"+bridge, "postrouting")
		if err != nil {
			return r, err
		}
		r.attachments[family] = comments
		there, err := hasChain(family, "filter", "FORWARD")
		if err != nil {
			return r, err
		}
		if !there {
			continue
		}
		if r.forward[family], err = readComments(family, "filter", "FORWARD"); err != nil {
			return r, err
		}
	}
	return r, nil
}

// nftRequest returns a request about a chain. The argument named contains the attribute types of
// the table's and the chain's name.
func nftRequest(message, flags int, family uint8, table, chain string, named [2]int) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, flags)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(named[0], nl.ZeroTerminated(table)))
	req.AddData(nl.NewRtAttr(named[1], nl.ZeroTerminated(chain)))
	return req
}

// execute sends a request to nftables in the namespace of the pods' bridge.
func execute(req *nl.NetlinkRequest) ([][]byte, error) {
	return podnetns.Call(func() ([][]byte, error) { return req.Execute(unix.NETLINK_NETFILTER, 0) })
}

// hasChain reports whether nftables has this chain in the kernel.
func hasChain(family uint8, table, chain string) (bool, error) {
	req := nftRequest(unix.NFT_MSG_GETCHAIN, 0, family, table, chain, [2]int{unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME})
	_, err := execute(req)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the nftables chain %s %s: %w", table, chain, err)
	}
	return true, nil
}

// readComments reads the comments of a chain's rules. It returns none if the chain does not
// exist.
func readComments(family uint8, table, chain string) ([]string, error) {
	messages, err := netdump.Repeat(func() ([][]byte, error) {
		req := nftRequest(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, family, table, chain, [2]int{unix.NFTA_RULE_TABLE, unix.NFTA_RULE_CHAIN})
		return execute(req)
	})
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the rules of the nftables chain %s %s: %w", table, chain, err)
	}
	var out []string
	for _, m := range messages {
		if len(m) < nl.SizeofNfgenmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
		if err != nil {
			return nil, fmt.Errorf("read the rules of the nftables chain %s %s: %w", table, chain, err)
		}
		for _, a := range attributes {
			if a.Attr.Type&nl.NLA_TYPE_MASK == unix.NFTA_RULE_USERDATA {
				out = append(out, commentOf(a.Value))
			}
		}
	}
	return out, nil
}

// commentOf returns the comment in a rule's user data. The data consists of entries, each with a
// type (0 for a comment), a length, and as many bytes. The data is untrusted, because any program
// may have written it.
func commentOf(data []byte) string {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		value := data[2 : 2+int(data[1])]
		if data[0] == 0 {
			text, _, _ := strings.Cut(string(value), "\x00")
			return text
		}
		data = data[2+len(value):]
	}
	return ""
}
