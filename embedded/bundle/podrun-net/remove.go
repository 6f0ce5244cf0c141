package main

import (
	"errors"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// removeAttachments removes the rules of attachments, and of a network that has no
// others then, all. An empty bridge stands for all networks. It can be repeated; that
// there is nothing is no error.
func removeAttachments(bridge string, gone func(comment string) bool) error {
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
		return nil // nor rules
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
		n, err := removeForward(c, f.id, bridge) // of a table that another removed
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

// removeFrom plans what to remove of a network's table, and returns how many changes
// that are.
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

// removeForward plans the removal of a network's rules from the chain FORWARD.
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
