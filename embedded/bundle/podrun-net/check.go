package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
)

// readCheck returns an error if a part of an attachment is missing.
func readCheck(a attachment) error {
	var errs []error
	for _, s := range plan(a) {
		errs = append(errs, checkRules(s, a.comment), checkForward(s.table.Family, a.bridge))
	}
	return errors.Join(errs...)
}

func checkRules(s ruleset, comment string) error {
	var names []string
	for _, c := range s.chains {
		names = append(names, c.Name)
	}
	there, err := readRules(s.table, names)
	if err != nil {
		return err
	}
	for _, c := range s.chains {
		wanted := count(s.attachment, func(r *nftables.Rule) bool { return r.Chain.Name == c.Name })
		found := count(there, func(r rule) bool { return r.chain == c.Name && r.comment == comment })
		if !slices.Contains(attachmentChains, c.Name) {
			wanted = count(s.base, func(r *nftables.Rule) bool { return r.Chain.Name == c.Name })
			found = count(there, func(r rule) bool { return r.chain == c.Name })
		}
		if found != wanted {
			return fmt.Errorf("attachment %s: the nftables chain %s %s has %d rules for this attachment instead of %d: another program changed them; recreate the sandbox",
				comment, s.table.Name, c.Name, found, wanted)
		}
	}
	return nil
}

// checkForward returns an error if the chain FORWARD lacks the network's rules because it
// was created or flushed after the last ADD.
func checkForward(id nftables.TableFamily, bridge string) error {
	chains, err := readChains(id)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(chains, takesForward) {
		return nil
	}
	rules, err := readRules(&nftables.Table{Family: id, Name: filterTable}, []string{forwardChain})
	if err != nil {
		return err
	}
	wanted := len(forwardRules(id, bridge))
	if found := count(rules, func(r rule) bool { return r.comment == forwardComment(bridge) }); found != wanted {
		return fmt.Errorf("bridge %s: the FORWARD chain of iptables has %d rules for this bridge instead of %d: another program changed them; recreate a sandbox", bridge, found, wanted)
	}
	return nil
}

func count[T any](of []T, is func(T) bool) int {
	n := 0
	for _, v := range of {
		if is(v) {
			n++
		}
	}
	return n
}
