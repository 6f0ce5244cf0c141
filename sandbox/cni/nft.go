package cni

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// nftTable is a table that CNI plugins create if they use nftables directly.
type nftTable struct {
	Family string `json:"family"`
	Name   string `json:"name"`
}

// nftTables are the tables that CNI plugins create (containernetworking/plugins since 1.6: portmap's
// portmap_nftables.go, ipMasqBackend's pkg/ip/ipmasq_nftables_linux.go; bridge's macspoofchk, pkg/link/spoofcheck.go,
// since 1.1). The table bridge nat may also contain rules that the administrator or other programs created.
var nftTables = []nftTable{
	{"ip", "cni_hostport"}, {"ip6", "cni_hostport"}, {"inet", "cni_hostport"},
	{"inet", "cni_plugins_masquerade"}, {"bridge", "nat"},
}

// nftListing contains the fields that podrun needs from the output of nft -j (libnftables-json(5)).
type nftListing struct {
	Nftables []struct {
		Table *nftTable `json:"table"`
		Chain *struct {
			Family, Table, Name string
		} `json:"chain"`
		Rule *struct {
			Family, Table, Chain, Comment string
			Handle                        int64
		} `json:"rule"`
	} `json:"nftables"`
}

// nftNames matches names that need no quotes in a script.
var nftNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9/_.-]*$`) })

// masqueraded matches the comment of a masquerading rule. The comment contains a hash of the
// network's name, and a hash of the interface and the sandbox. All three follow in plain text,
// truncated at nftables' limit.
var masqueraded = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{16}-([0-9a-f]{16}), net: .*, if: ([^ ,]+), id: ([0-9a-f]*)$`)
})

// tablesOf returns the elements of nftTables that occur in the output of nft -j list tables.
func tablesOf(listing []byte) ([]nftTable, error) {
	var l nftListing
	if err := json.Unmarshal(listing, &l); err != nil {
		return nil, fmt.Errorf("nft -j list tables: %w", err)
	}
	var out []nftTable
	for _, e := range l.Nftables {
		if e.Table != nil && slices.Contains(nftTables, *e.Table) {
			out = append(out, *e.Table)
		}
	}
	return out, nil
}

// nftRemoval converts the output of nft -j list table to a script for nft -f. The script
// removes the rules and chains of the given sandboxes. It is empty if there are none.
func nftRemoval(listing []byte, table nftTable, sandboxes []string) ([]byte, error) {
	var l nftListing
	if err := json.Unmarshal(listing, &l); err != nil {
		return nil, fmt.Errorf("nft -j list table %s %s: %w", table.Family, table.Name, err)
	}
	var rules, chains bytes.Buffer
	for _, e := range l.Nftables {
		if r := e.Rule; r != nil && r.Family == table.Family && r.Table == table.Name && nftNames().MatchString(r.Chain) && r.Handle > 0 &&
			slices.ContainsFunc(sandboxes, func(id string) bool { return isNftComment(r.Comment, id) }) {
			fmt.Fprintf(&rules, "delete rule %s %s %s handle %d\n", table.Family, table.Name, r.Chain, r.Handle)
		}
		if c := e.Chain; c != nil && c.Family == table.Family && c.Table == table.Name && nftNames().MatchString(c.Name) &&
			slices.ContainsFunc(sandboxes, func(id string) bool { return strings.HasPrefix(c.Name, "cni-br-iface-"+id+"-") }) {
			// The script deletes the rules that refer to the chain before it deletes the chain,
			// because nft does not delete a chain that is in use.
			fmt.Fprintf(&chains, "delete chain %s %s %s\n", table.Family, table.Name, c.Name)
		}
	}
	return append(rules.Bytes(), chains.Bytes()...), nil
}

// isNftComment reports whether the comment of a plugin's rule identifies a sandbox.
func isNftComment(comment, sandbox string) bool {
	if comment == sandbox || strings.HasPrefix(comment, "macspoofchk-"+sandbox+"-") {
		return true
	}
	m := masqueraded().FindStringSubmatch(comment)
	if m == nil || !strings.HasPrefix(sandbox, m[3]) {
		return false
	}
	// The ID may be truncated, but the hash covers the whole ID.
	return fmt.Sprintf("%x", sha512.Sum512([]byte(m[2]+":"+sandbox)))[:16] == m[1]
}
