package rig

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host/nodeconfig"
)

// KeepSecretsInMemory sets --secrets=memory.
func (h *Host) KeepSecretsInMemory() {
	h.Settings.Secrets = nodeconfig.SecretsInMemory
	// This removes the Secrets if the test fails before podrun removes them.
	h.T.Cleanup(func() {
		_ = unix.Unmount(string(h.Layout().Secrets()), unix.MNT_DETACH)
		_ = os.RemoveAll(string(h.Layout().Secrets()))
	})
}

// LoseSecrets removes the Secrets in memory, as a reboot does.
func (h *Host) LoseSecrets() {
	h.T.Helper()
	if _, err := os.Stat(h.Layout().Secrets().Pods()); err != nil {
		h.T.Fatalf("no Secrets are in memory: %v", err)
	}
	if err := os.RemoveAll(h.Layout().Secrets().Pods()); err != nil {
		h.T.Fatal(err)
	}
}

// NothingInMemory fails the test unless podrun has removed all Secrets in memory.
func (h *Host) NothingInMemory() {
	h.T.Helper()
	if _, err := os.Lstat(string(h.Layout().Secrets())); !os.IsNotExist(err) {
		h.T.Errorf("%s is left: %v", h.Layout().Secrets(), err)
	}
}
