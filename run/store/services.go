package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/service"
)

// ServiceRecord is a Service of this root directory, with its virtual IPs and node ports.
type ServiceRecord struct {
	Service *corev1.Service `json:"service"`
	// Origin is the file in a manifest directory of podrun serve; "" if a command applied the Service.
	Origin string `json:"origin,omitempty"`
}

// ServiceFault is a record of a Service that podrun cannot use.
type ServiceFault = statefile.KeyedFault[ServiceRecord]

var serviceRecords = statefile.DeclareKeyed(statefile.Keyed[ServiceRecord]{
	Dir: func(l identity.Layout) string { return string(l.Services()) },
	Kind: &statefile.Kind[ServiceRecord]{
		What: "the record of a Service", Files: "services/<namespace>_<name>", Scope: statefile.Service,
		On:   statefile.Answers{Absent: "no such Service", Corrupt: statefile.Report, Unreadable: statefile.Refuse, Newer: statefile.Refuse},
		Mode: 0o640, DirMode: 0o750,
	},
	Check: func(id identity.Pod, r ServiceRecord) error {
		if r.Service == nil || r.Service.Name != id.Name || r.Service.Namespace != id.Namespace {
			return errors.New("it does not describe this Service")
		}
		return nil
	},
})

// ReadServices lists the Services, sorted by namespace and name. The faults are the records that podrun cannot
// use. They affect only their Services; the next apply of a Service replaces a corrupt record. The error means
// that the directory cannot be listed, or that this process lacks a resource.
func ReadServices(layout identity.Layout) ([]ServiceRecord, []ServiceFault, error) {
	records, faults, err := serviceRecords.List(context.Background(), layout, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("read the Services: %w", err)
	}
	var out []ServiceRecord
	for _, r := range records {
		out = append(out, r.Value)
	}
	return out, faults, nil
}

// HasService reports whether there is a record of a Service.
func HasService(layout identity.Layout, id identity.Pod) bool {
	_, err := os.Lstat(layout.Services().Service(id))
	return err == nil
}

// WriteService writes and syncs the record of a Service. The record must be durable, because
// clients may cache the virtual IP. The caller holds the lock of Services.
func WriteService(layout identity.Layout, r ServiceRecord) error {
	id := identity.Pod{Namespace: r.Service.Namespace, Name: r.Service.Name}
	faultpoint.At("service/write")
	err := serviceRecords.Put(layout, id, r)
	faultpoint.At("service/written")
	return err
}

// RemoveService removes the record and the journal of a Service, if there are any. The caller holds the lock of
// Services.
func RemoveService(layout identity.Layout, namespace, name string) error {
	id := identity.Pod{Namespace: namespace, Name: name}
	faultpoint.At("service/remove")
	// The record is removed last, so that a delete that was killed can be repeated.
	if err := os.RemoveAll(filepath.Dir(layout.ServiceJournal(id))); err != nil {
		return fmt.Errorf("remove the journal of service %s: %w", id, err)
	}
	err := serviceRecords.Delete(layout, id)
	faultpoint.At("service/removed")
	return err
}

var serviceRanges = statefile.Declare(statefile.Kind[[]netip.Prefix]{
	What: "the ranges of virtual IPs", Files: "services/ranges.json", Scope: statefile.Host,
	On: statefile.Answers{
		Absent:     "no Service has a virtual IP",
		Corrupt:    statefile.Rebuild,
		Unreadable: statefile.Rebuild,
		Newer:      statefile.Partial,
	},
	Paths: statefile.At(identity.Layout.Services, identity.ServicesDir.Ranges), Mode: 0o640, DirMode: 0o750,
})

// ReadServiceRanges returns the ranges of virtual IPs; nil before the first Service is created. If fault is
// non-nil, the caller must derive them again from the Services.
func ReadServiceRanges(layout identity.Layout) (ranges []netip.Prefix, fault *statefile.Fault, err error) {
	return serviceRanges.Read(context.Background(), layout.Services().Ranges())
}

// WriteServiceRanges records the ranges of virtual IPs.
func WriteServiceRanges(layout identity.Layout, ranges []netip.Prefix) error {
	return serviceRanges.Write(layout.Services().Ranges(), ranges)
}

var serviceNames = statefile.Declare(statefile.Kind[[]service.Name]{
	What: "the names of Services", Files: "services/names.json", Scope: statefile.Host,
	On:    statefile.Answers{Absent: "no Service has a name", Corrupt: statefile.Rebuild, Unreadable: statefile.Rebuild, Newer: statefile.Partial},
	Paths: statefile.At(identity.Layout.Services, identity.ServicesDir.Names), Mode: 0o640, DirMode: 0o750,
})

// ReadServiceNames returns the names of Services for the pods' hosts files. They are derived from the Services
// and the pods: if fault is non-nil, the next synchronization derives them again.
func ReadServiceNames(layout identity.Layout) (names []service.Name, fault *statefile.Fault, err error) {
	return serviceNames.Read(context.Background(), layout.Services().Names())
}

// WriteServiceNames records the names of Services.
func WriteServiceNames(layout identity.Layout, names []service.Name) error {
	return serviceNames.Write(layout.Services().Names(), names)
}

// RemoveServiceState removes what podrun derived from the Services, after the last one was removed: the
// names, the ranges, the directory of the journals, and temporary files of killed processes. The caller holds the lock of Services.
func RemoveServiceState(layout identity.Layout) error {
	removeTemporaries(string(layout.Services()), 0) // processes create them only under the lock
	if err := os.RemoveAll(layout.ServiceEvents()); err != nil {
		return fmt.Errorf("remove the journals of Services: %w", err)
	}
	for _, path := range []string{layout.Services().Names(), layout.Services().Ranges()} {
		faultpoint.At("services/forget")
		if err := statefile.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// HasServices reports whether there may be Services, or rules or names of deleted Services. On a
// host without Services, it makes only one system call.
func HasServices(layout identity.Layout) bool {
	entries, err := os.ReadDir(string(layout.Services()))
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !statefile.IsSetAside(e.Name()) })
}
