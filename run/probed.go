package run

// probed is what the probes of the pod have found so far.
func (s *syncer) probed() (started map[string]bool, unhealthy map[string]Unhealthy) {
	return nil, nil
}
