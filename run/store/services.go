package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
)

// ServiceRecord is a Service of this root directory, with its virtual IPs and node ports.
type ServiceRecord struct {
	Service *corev1.Service `json:"service"`
	// Origin is the file in a manifest directory of podrun serve; "" if a command applied the Service.
	Origin string `json:"origin,omitempty"`
}

// ReadServices lists the Services, sorted by namespace and name. It skips corrupt records, which
// the error corrupt names; the next apply of such a Service writes the record again.
func ReadServices(layout identity.Layout) (out []ServiceRecord, corrupt error, err error) {
	entries, err := os.ReadDir(layout.Services())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("list the Services: %w", err)
	}
	for _, e := range entries {
		id, ok := NamedPod(e.Name())
		if !ok {
			continue
		}
		path := layout.Service(id)
		data, err := ReadState(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed after it was listed
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the Service %s: %w", id, err)
		}
		var r ServiceRecord
		if json.Unmarshal(data, &r) != nil || r.Service == nil || r.Service.Name != id.Name || r.Service.Namespace != id.Namespace {
			corrupt = errors.Join(corrupt, fmt.Errorf("the record %s of a Service is corrupt: apply the Service again, or remove the file", path))
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b ServiceRecord) int {
		return strings.Compare(a.Service.Namespace+"/"+a.Service.Name, b.Service.Namespace+"/"+b.Service.Name)
	})
	return out, corrupt, nil
}

// WriteService writes and syncs the record of a Service. The record must be durable, because
// clients may cache the virtual IP. The caller holds the lock of Services.
func WriteService(layout identity.Layout, r ServiceRecord) error {
	id := identity.Pod{Namespace: r.Service.Namespace, Name: r.Service.Name}
	faultpoint.At("service/write")
	err := KeepState(layout.Service(id), r, true)
	faultpoint.At("service/written")
	if err != nil {
		return fmt.Errorf("service %s: write its record: %w", id, err)
	}
	return nil
}

// RemoveService removes the record of a Service, if there is one. The caller holds the lock of
// Services.
func RemoveService(layout identity.Layout, namespace, name string) error {
	id := identity.Pod{Namespace: namespace, Name: name}
	faultpoint.At("service/remove")
	err := os.Remove(layout.Service(id))
	faultpoint.At("service/removed")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("service %s: remove its record: %w", id, err)
	}
	return nil
}

// ReadServiceRanges returns the ranges of virtual IPs. It returns nil before the first Service is
// created.
func ReadServiceRanges(layout identity.Layout) ([]netip.Prefix, error) {
	return ReadJSON[[]netip.Prefix](layout.ServiceRanges(), "the ranges of virtual IPs")
}

// WriteServiceRanges records the ranges of virtual IPs.
func WriteServiceRanges(layout identity.Layout, ranges []netip.Prefix) error {
	return KeepState(layout.ServiceRanges(), ranges, true)
}

// RemoveServiceState removes what podrun derived from the Services, after the last one was removed: the
// names, the ranges, and temporary files of killed processes. The caller holds the lock of Services.
func RemoveServiceState(layout identity.Layout) error {
	removeTemporaries(layout.Services(), 0) // processes create them only under the lock
	for _, path := range []string{layout.ServiceNames(), layout.ServiceRanges()} {
		faultpoint.At("services/forget")
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// HasServices reports whether there may be Services, or rules or names of deleted Services. On a
// host without Services, it makes only one system call.
func HasServices(layout identity.Layout) bool {
	entries, err := os.ReadDir(layout.Services())
	return err == nil && len(entries) > 0
}
