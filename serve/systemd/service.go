package systemd

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/hostfile"
)

// maxUnit limits the size of a unit file, in bytes.
const maxUnit = 1 << 20

// unit reads the unit file. It does not follow links.
func (s Service) unit(ctx context.Context) ([]byte, error) {
	return hostfile.ReadNoFollow(ctx, s.path(s.unitPath()), maxUnit)
}

// ready returns an error if systemd does not manage this host.
func (s Service) ready() error {
	if s.Manager != nil && !s.Manager.Booted() {
		return failure("", errors.New("systemd is not running on this host"), "run 'podrun serve' under another supervisor")
	}
	return nil
}

// Status asks systemd for the state of the service. If the service is not installed, the field Load
// is not-found. Status requires a Manager.
func (s Service) Status(ctx context.Context) (State, error) {
	if err := s.ready(); err != nil {
		return State{}, err
	}
	out, err := s.Manager.Run(ctx, "show", "--property="+properties(), UnitName)
	if err != nil {
		return State{}, failure("", err, "")
	}
	return parseState(out), nil
}
