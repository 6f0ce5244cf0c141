// Package lookup reads what exists on this host: pods by name, label and ID, their states, the workloads that
// define them, Jobs, claims and ConfigMaps. It changes nothing.
package lookup
