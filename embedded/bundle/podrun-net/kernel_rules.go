package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables"
	mdnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// errNoTables means that the kernel has no nftables, and so no rules.
var errNoTables = errors.New("the kernel has no nftables (CONFIG_NF_TABLES)")

// buffer is the buffer size of the netlink socket in bytes. It must be large, because a
// transaction is one message, and a sandbox may have thousands of host ports.
const buffer = 8 << 20

func conn() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *mdnetlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(buffer), c.SetReadBuffer(buffer))
	}))
}

// readTables lists this plugin's tables.
func readTables() ([]*nftables.Table, error) {
	c, err := conn()
	if err != nil {
		return nil, err
	}
	var out []*nftables.Table
	for _, f := range families {
		tables, err := c.ListTablesOfFamily(f.id)
		switch {
		case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL):
			return nil, errNoTables
		case err != nil:
			return nil, fmt.Errorf("list nftables tables: %w", err)
		}
		for _, t := range tables {
			if strings.HasPrefix(t.Name, tablePrefix) {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// readChains lists the chains of an address family in all tables.
func readChains(id nftables.TableFamily) ([]*nftables.Chain, error) {
	c, err := conn()
	if err != nil {
		return nil, err
	}
	chains, err := c.ListChainsOfTableFamily(id)
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	return chains, nil
}

// rule contains the data with which a rule can be found and deleted.
type rule struct {
	chain   string
	handle  uint64
	comment string // empty without one
}

func (r rule) rule(t *nftables.Table) *nftables.Rule {
	return &nftables.Rule{Table: t, Chain: &nftables.Chain{Table: t, Name: r.chain}, Handle: r.handle}
}

// readRules lists the rules of chains. A chain that does not exist has none. It does not parse
// expressions, because rules of other programs may use any feature of the kernel.
func readRules(t *nftables.Table, chains []string) ([]rule, error) {
	var out []rule
	for _, chain := range chains {
		messages, err := dumpRules(t, chain)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the rules of the nftables chain %s %s: %w", t.Name, chain, err)
		}
		for _, m := range messages {
			r, err := parseRule(m)
			if err != nil {
				return nil, fmt.Errorf("list the rules of the nftables chain %s %s: %w", t.Name, chain, err)
			}
			r.chain = chain
			out = append(out, r)
		}
	}
	return out, nil
}

// dumpRules reads the rules of a chain. If the rules change during the read, it reads them
// again.
func dumpRules(t *nftables.Table, chain string) (messages [][]byte, err error) {
	for range tries {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(t.Family), Version: nl.NFNETLINK_V0})
		req.AddData(nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(t.Name)))
		req.AddData(nl.NewRtAttr(unix.NFTA_RULE_CHAIN, nl.ZeroTerminated(chain)))
		messages, err = req.Execute(unix.NETLINK_NETFILTER, 0)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return messages, err
}

// commentType is the type of a comment in a rule's user data. It is the same in nft
// (libnftnl/udata.h, NFTNL_UDATA_RULE_COMMENT) and in iptables.
const commentType = 0

// parseRule parses a message from the kernel: a header and attributes.
func parseRule(message []byte) (rule, error) {
	if len(message) < nl.SizeofNfgenmsg {
		return rule{}, errors.New("a netlink message is truncated")
	}
	// If the last attribute is not padded, nl.ParseRouteAttr panics.
	attributes, err := mdnetlink.UnmarshalAttributes(message[nl.SizeofNfgenmsg:])
	if err != nil {
		return rule{}, err
	}
	var r rule
	for _, a := range attributes {
		switch a.Type & nl.NLA_TYPE_MASK {
		case unix.NFTA_RULE_HANDLE:
			if len(a.Data) == 8 {
				r.handle = binary.BigEndian.Uint64(a.Data)
			}
		case unix.NFTA_RULE_USERDATA:
			r.comment = parseComment(a.Data)
		}
	}
	return r, nil
}

// parseComment returns the comment in a rule's user data. The data consists of entries with a
// type, a length and a value. Any program may have written them.
func parseComment(data []byte) string {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		value := data[2 : 2+int(data[1])]
		if data[0] == commentType {
			text, _, _ := strings.Cut(string(value), "\x00")
			return text
		}
		data = data[2+len(value):]
	}
	return ""
}
