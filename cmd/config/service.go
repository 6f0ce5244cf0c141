package config

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/serve/systemd"
)

// settingsText is the settings file of a new service. 'podrun service uninstall' removes
// the file only if it still has this text.
const settingsText = `# Settings of podrun, for commands and for podrun.service: podrun-config(5).
# Written by 'podrun service install', because there was no settings file.
# A flag takes precedence over its PODRUN_ variable, and the variable over this file.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# Containers without a seccomp profile get the runtime's default profile. With the
# kubelet's default, false, they run unconfined.
seccompDefault: true
`

// SettingsCreated is the notice, after the path, that the settings file was created.
const SettingsCreated = " written; all commands read it: containers of new pods without a seccomp profile get the runtime's default profile (seccompDefault: false restores the kubelet's default)"

// NewSettings returns the settings file of a new service: that of the user who runs podrun if user is set, else that of
// the host.
func NewSettings(user bool) *systemd.File {
	path := nodeconfig.DefaultFile
	if user {
		path = nodeconfig.ConfigFile()
	}
	return &systemd.File{Path: path, Text: []byte(settingsText)}
}

// AnyGiven reports whether one of these flags was on the command line.
func (f *Flags) AnyGiven(names ...string) bool {
	return slices.ContainsFunc(f.Given, func(flag *pflag.Flag) bool { return slices.Contains(names, flag.Name) })
}
