package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// Probed returns the current results of the probes. If no probes run, it returns the
// stored results of an earlier podrun.
func (p *Pod) Probed() (started, ready map[string]bool, unhealthy map[string]lifecycle.Unhealthy) {
	started, ready = p.Observed.Probed()
	if p.Prober == nil {
		return started, ready, nil
	}
	results := p.Prober.Results()
	maps.Copy(started, results.Started)
	maps.Copy(ready, results.Ready)
	unhealthy = map[string]lifecycle.Unhealthy{}
	for id, kill := range results.Kill {
		unhealthy[id] = lifecycle.Unhealthy{Message: kill.Message, Grace: kill.GraceSeconds}
	}
	return started, ready, unhealthy
}

// KeepProbed stores results of probes, by container ID, if they have changed. At the end of an
// operation the file shows when they were known to hold, for `get`.
func (p *Pod) KeepProbed(now map[string]lifecycle.Probed, end bool) error {
	file := p.Plan.Layout.ProbeResults(p.Plan.ID.UID)
	if len(now) == 0 || maps.Equal(now, p.Observed.Probes) {
		if end && len(now) > 0 {
			at := time.Now()
			_ = os.Chtimes(file, at, at) // `get` shows then an older time
		}
		return nil
	}
	p.Observed.Probes = now
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("save the probe results: %w", err)
	}
	err = os.Mkdir(filepath.Dir(file), 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another command deleted the pod
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = store.WriteState(file, data, 0o640)
	}
	if err != nil {
		return fmt.Errorf("pod %s: save the probe results: %w", p.Plan.ID, err)
	}
	return nil
}
