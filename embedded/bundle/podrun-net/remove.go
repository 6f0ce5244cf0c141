package main

import (
	"errors"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// removeRulesOf removes the rules of attachments and, for a network without remaining
// attachments, all rules. An empty bridge selects all networks. It is idempotent, and
// returns no error if there are no rules.
func removeRulesOf(bridge string, gone func(comment string) bool) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	for range tries {
		if err = removeRules(bridge, gone); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if errors.Is(err, errNoTables) {
		// There are no tables, and so no rules.
		return nil
	}
	return err
}

func removeRules(bridge string, gone func(comment string) bool) error {
	c, err := conn()
	if err != nil {
		return err
	}
	tables, err := readTables()
	if err != nil {
		return err
	}
	there := map[nftables.TableFamily]bool{}
	changes := 0
	for _, t := range tables {
		if bridge != "" && t.Name != tableName(bridge) {
			continue
		}
		there[t.Family] = true
		n, err := removeFrom(c, t, gone)
		if err != nil {
			return err
		}
		changes += n
	}
	for _, f := range families {
		if bridge == "" || there[f.id] {
			continue
		}
		// Even if another program has removed the network's table, its rules in FORWARD may remain.
		n, err := removeForward(c, f.id, bridge)
		if err != nil {
			return err
		}
		changes += n
	}
	if changes == 0 {
		return nil
	}
	return c.Flush()
}

// removeFrom adds the removal of rules from a network's table to the transaction, and returns
// the number of changes.
func removeFrom(c *nftables.Conn, t *nftables.Table, gone func(comment string) bool) (int, error) {
	rules, err := readRules(t, attachmentChains)
	if err != nil {
		return 0, err
	}
	var out []rule
	for _, r := range rules {
		if gone(r.comment) {
			out = append(out, r)
		}
	}
	if len(out) == len(rules) {
		c.DelTable(t)
		n, err := removeForward(c, t.Family, t.Name[len(tablePrefix):])
		return n + 1, err
	}
	for _, r := range out {
		if err := c.DelRule(r.rule(t)); err != nil {
			return 0, err
		}
	}
	return len(out), nil
}

// removeForward adds the removal of a network's rules from the chain FORWARD to the
// transaction.
func removeForward(c *nftables.Conn, id nftables.TableFamily, bridge string) (int, error) {
	t := &nftables.Table{Family: id, Name: filterTable}
	rules, err := readRules(t, []string{forwardChain})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range rules {
		if r.comment != forwardComment(bridge) {
			continue
		}
		if err := c.DelRule(r.rule(t)); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
