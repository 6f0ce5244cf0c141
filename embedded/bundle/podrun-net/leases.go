package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/disk"
)

// annotationIP is the annotation of a pod that requests its addresses.
const annotationIP = "podrun.dev/ip"

// addresses is the address configuration of a network, with the addresses that a call
// requests.
type addresses struct {
	*allocator.IPAMConfig
}

// addresses parses and validates the network's ranges and the requested addresses. args is
// CNI_ARGS.
func (c *config) addresses(args string) (addresses, error) {
	invalid := func(format string, args ...any) error {
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: ", c.Name)+fmt.Sprintf(format, args...), "")
	}
	ipam, _, err := allocator.LoadIPAMConfig(c.stdin, args)
	if err != nil {
		return addresses{}, invalid("ipam: %v", err)
	}
	if ipam.ResolvConf != "" {
		return addresses{}, invalid("ipam: the setting resolvConf is not supported: remove it")
	}
	if text := c.RuntimeConfig.Annotations[annotationIP]; text != "" {
		ipam.IPArgs = nil
		for one := range strings.SplitSeq(text, ",") {
			ip := net.ParseIP(strings.TrimSpace(one))
			if ip == nil {
				return addresses{}, invalid("annotation %s: %q is not an IP address", annotationIP, one)
			}
			if v4 := ip.To4(); v4 != nil {
				ip = v4
			}
			ipam.IPArgs = append(ipam.IPArgs, ip)
		}
	}
	a := addresses{ipam}
	used := map[int]net.IP{}
	for _, ip := range ipam.IPArgs {
		at, r := a.rangeOf(ip)
		switch {
		case r == nil:
			return addresses{}, invalid("the requested address %s is in none of the ranges %s", ip, a)
		case ip.Equal(r.Gateway):
			return addresses{}, invalid("the requested address %s is the gateway's address", ip)
		case used[at] != nil:
			return addresses{}, invalid("the requested addresses %s and %s are in the same range: request only one of them", used[at], ip)
		}
		used[at] = ip
	}
	return a, nil
}

// rangeOf returns the index of the range set that contains an address, and its range in that
// set.
func (a addresses) rangeOf(ip net.IP) (int, *allocator.Range) {
	for i, set := range a.Ranges {
		if r, err := set.RangeFor(ip); err == nil {
			return i, r
		}
	}
	return -1, nil
}

func (a addresses) String() string {
	var out []string
	for _, set := range a.Ranges {
		out = append(out, set.String())
	}
	return strings.Join(out, ", ")
}

// lease is a reserved address: a file in host-local's format.
type lease struct {
	path   string
	ip     net.IP
	holder string // SANDBOX/INTERFACE, or SANDBOX in the format of early releases; empty for an incomplete file
}

// of reports whether a lease belongs to an attachment.
func (l lease) of(sandbox, ifName string) bool {
	return l.holder == comment(sandbox, ifName) || l.holder == sandbox
}

// store is the directory with a network's leases.
type store struct {
	*disk.Store
	dir string
}

// openStore opens the leases, and creates their directory.
func (a addresses) openStore() (*store, error) {
	s, err := disk.New(a.Name, a.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of addresses: %w", err)
	}
	return &store{s, a.dir()}, nil
}

func (a addresses) dir() string {
	data := a.DataDir
	if data == "" {
		data = "/var/lib/cni/networks" // host-local's default
	}
	return filepath.Join(data, a.Name)
}

// locked calls do with host-local's lock held, and a list of all leases.
func (s *store) locked(do func([]lease) error) error {
	if err := within(lockLimit, s.Lock); err != nil {
		return fmt.Errorf("lock %s: %w", s.dir, err)
	}
	defer s.Unlock() //nolint:errcheck // closing the file unlocks it, too
	leases, err := s.read()
	if err != nil {
		return err
	}
	return do(leases)
}

// read lists the leases. It omits files that are not named after an address.
func (s *store) read() ([]lease, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list the addresses: %w", err)
	}
	var out []lease
	for _, e := range entries {
		ip := net.ParseIP(e.Name())
		if ip == nil || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read an address: %w", err)
		}
		id, ifName, two := strings.Cut(strings.TrimSpace(string(data)), disk.LineBreak)
		l := lease{path: path, ip: ip, holder: id}
		if two {
			l.holder = comment(id, ifName)
		}
		out = append(out, l)
	}
	return out, nil
}

// remove removes the leases that gone selects. It also removes incomplete ones: because it holds the lock, only a
// killed process or a power failure can have left them.
func remove(leases []lease, gone func(lease) bool) (kept []lease, err error) {
	var errs []error
	for _, l := range leases {
		if l.holder != "" && !gone(l) {
			kept = append(kept, l)
			continue
		}
		if err := os.Remove(l.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("release the address %s: %w", l.ip, err))
		}
	}
	return kept, errors.Join(errs...)
}

// reserve reserves an address in each range set. It first releases addresses that an
// interrupted ADD of the same attachment has left.
func (a addresses) reserve(sandbox, ifName string) ([]*current.IPConfig, error) {
	s, err := a.openStore()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out []*current.IPConfig
	err = s.locked(func(leases []lease) error {
		leases, err := remove(leases, func(l lease) bool { return l.of(sandbox, ifName) })
		if err != nil {
			return err
		}
		holders := map[string]string{}
		for _, l := range leases {
			holders[l.ip.String()] = l.holder
		}
		for i, set := range a.Ranges {
			ip, err := a.reserveIn(s, i, &set, holders, sandbox, ifName)
			if err != nil {
				return err
			}
			out = append(out, ip)
		}
		return nil
	})
	return out, err
}

// reserveIn reserves the requested address of a range set or, without a request, the next
// free one after the last reserved one. The lock is held.
func (a addresses) reserveIn(s *store, index int, set *allocator.RangeSet, holders map[string]string, sandbox, ifName string) (*current.IPConfig, error) {
	id := fmt.Sprint(index)
	take := func(ip net.IP) (bool, error) {
		fault("reserve/before")
		defer fault("reserve/after")
		ok, err := s.Reserve(sandbox, ifName, ip, id)
		if err != nil {
			err = fmt.Errorf("reserve the address %s: %w", ip, err)
		}
		return ok, err
	}
	for _, ip := range a.IPArgs {
		r, err := set.RangeFor(ip)
		if err != nil {
			continue
		}
		switch ok, err := take(ip); {
		case err != nil:
			return nil, err
		case !ok:
			return nil, types.NewError(errInUse, fmt.Sprintf("the requested address %s is in use by sandbox %s", ip, holders[ip.String()]), "")
		}
		return &current.IPConfig{Address: net.IPNet{IP: ip, Mask: r.Subnet.Mask}, Gateway: r.Gateway}, nil
	}
	iter, err := allocator.NewIPAllocator(set, s.Store, index).GetIter()
	if err != nil {
		return nil, err
	}
	for {
		ip, gateway := iter.Next()
		if ip == nil {
			return nil, types.NewError(errInUse, fmt.Sprintf("all addresses of %s are in use: delete pods", set), "")
		}
		if holders[ip.IP.String()] != "" {
			continue
		}
		ok, err := take(ip.IP)
		if err != nil {
			return nil, err
		}
		if ok {
			return &current.IPConfig{Address: *ip, Gateway: gateway}, nil
		}
	}
}

// errInUse is the error code for an address that is not available. The CNI specification
// reserves the codes below 100.
const errInUse = 110

// release releases the addresses that gone selects. A missing directory has none.
func (a addresses) release(gone func(lease) bool) error {
	if _, err := os.Stat(a.dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	return s.locked(func(leases []lease) error {
		fault("release/before")
		_, err := remove(leases, gone)
		fault("release/after")
		return err
	})
}
