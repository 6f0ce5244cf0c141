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
		_ = unix.Unmount(h.Layout().SecretsDir(), unix.MNT_DETACH)
		_ = os.RemoveAll(h.Layout().SecretsDir())
	})
}

// LoseSecrets removes the Secrets in memory, as a reboot does.
func (h *Host) LoseSecrets() {
	h.T.Helper()
	if _, err := os.Stat(h.Layout().SecretPods()); err != nil {
		h.T.Fatalf("no Secrets are in memory: %v", err)
	}
	if err := os.RemoveAll(h.Layout().SecretPods()); err != nil {
		h.T.Fatal(err)
	}
}

// NothingInMemory fails the test unless podrun has removed all Secrets in memory.
func (h *Host) NothingInMemory() {
	h.T.Helper()
	if _, err := os.Lstat(h.Layout().SecretsDir()); !os.IsNotExist(err) {
		h.T.Errorf("%s is left: %v", h.Layout().SecretsDir(), err)
	}
}
