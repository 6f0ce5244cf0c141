// Package systemd integrates podrun with systemd. It contains the unit file, its installation
// with systemctl, and the sd_notify(3) messages of a running service. It has no knowledge of
// pods.
package systemd

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// UnitName is the name of podrun's unit. UnitPath is the unit's file on the host, in the directory
// for the administrator's units (systemd.unit(5)).
const (
	UnitName = "podrun.service"
	UnitPath = "/etc/systemd/system/" + UnitName
)

// marker is the first line of a unit file that Install has written. A file without this line
// belongs to the user, and Install and Uninstall refuse to change it.
const marker = "# Written by 'podrun service install'."

// Limits of a unit's command line.
const (
	maxArguments = 256
	maxArgument  = 4096 // bytes; PATH_MAX
)

// UnitOptions are the parts of the unit that may differ between hosts.
type UnitOptions struct {
	Binary string // absolute path of podrun
	// Sources are absolute paths of manifest directories, and https URLs. If it is empty, podrun
	// uses the sources in the settings.
	Sources []string
	Flags   []string // flags of `podrun serve`, such as --config=/etc/podrun/edge.yaml
	User    bool     // the unit of an ordinary user
}

// Unit returns the text of podrun.service. It is pure. The error names the argument that a unit
// file cannot contain.
//
// The reasons for the unit's settings:
//
//   - Type=notify: READY=1 means that the local sources were read. systemd does not wait for
//     images, networks or pods, which may take longer than TimeoutStartSec.
//   - After= does not contain network-online.target, because pods start without a network. It
//     has both runtimes, and there is no Wants=. podrun itself waits for the runtime, and a
//     runtime that is installed but disabled remains disabled.
//   - KillMode=process: podrun's child processes are mount helpers and credential plugins. A
//     restart of podrun must not kill these half-way. Containers continue to run: they are the
//     runtime's children and not part of this unit.
//   - Restart=always without a start limit: the pods of an edge device have no
//     other supervisor.
//   - SuccessExitStatus: podrun exits with 143 after SIGTERM and 130 after SIGINT.
//   - HOME: systemd sets none for root's services, and podrun looks for docker
//     configs there.
//   - ExecReload= does not use kill(1), which is not installed on every host, and there is
//     no Type=notify-reload, which requires systemd 253.
//   - No Delegate=: podrun creates no cgroups inside the cgroup of its own unit.
//   - OOMScoreAdjust=-999 is what the kubelet sets for itself (pkg/kubelet/qos).
//   - For the restrictions, see hardening.
func Unit(o UnitOptions) ([]byte, error) {
	command, err := commandLine(o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if o.User {
		return []byte(marker + userUnit(command, reloadCommand(o))), nil
	}
	b.WriteString(marker + `
# Settings are in /etc/podrun/config.yaml; to change this unit, run
# 'systemctl edit ` + UnitName + `'. 'podrun service uninstall' removes it.
[Unit]
Description=Kubernetes pods of this host (podrun)
After=local-fs.target network.target containerd.service crio.service
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
Environment=HOME=/root
ExecStart=` + command + `
ExecReload=` + reloadCommand(o) + `
Restart=always
RestartSec=2
SuccessExitStatus=130 143
KillMode=process
TimeoutStartSec=90
WatchdogSec=60
OOMScoreAdjust=-999
LimitNOFILE=1048576
TasksMax=infinity
` + hardening + `
[Install]
WantedBy=multi-user.target
`)
	return b.Bytes(), nil
}

// userUnit is the unit of an ordinary user, after the marker. Without hardening: the user's processes have no
// privileges, and most of these settings require a mount namespace of the manager. With Delegate=, systemd does not
// manage cgroups below that of the service, in which containerd and the containers remain when podrun is restarted
// (KillMode=process).
func userUnit(command, reload string) string {
	return `
# Settings are in ~/.config/podrun/config.yaml; to change this unit, run
# 'systemctl --user edit ` + UnitName + `'. 'podrun service uninstall --user' removes it.
[Unit]
Description=Kubernetes pods of this user (podrun)
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=` + command + `
ExecReload=` + reload + `
Restart=always
RestartSec=2
SuccessExitStatus=130 143
KillMode=process
Delegate=yes
TimeoutStartSec=90
WatchdogSec=60

[Install]
WantedBy=default.target
`
}

// hardening is the part of the unit that restricts podrun and its child processes. These are
// mount helpers, credential plugins, nft and the embedded runtime's network plugin. It does not
// restrict containers, because the runtime starts them. podrun starts the embedded runtime as a
// transient service of systemd (embedded.Start), which inherits nothing from this unit.
//
//   - The unit contains no setting that gives the service its own mount namespace; the unit
//     explains why.
//   - UMask: whatever the umask is, podrun sets the modes of files that containers and other
//     users may read (hostfile.MakeDirs).
//   - CapabilityBoundingSet and SystemCallFilter list what is forbidden, instead of what is
//     allowed: child processes, kernels and systemd versions differ in what they need or know.
//     A forbidden system call fails with EPERM; it does not end the process. podrun keeps
//     CAP_SYS_ADMIN (for mounts), CAP_SYS_PTRACE (for namespaces of containers that run as
//     other users) and CAP_SYS_RESOURCE (for limits and OOM scores).
//   - RestrictNamespaces: podrun must be able to enter network namespaces, for port-forward.
//   - DevicePolicy=closed: podrun opens only devices such as /dev/null.
//   - No RestrictSUIDSGID=: volumes of a pod with fsGroup have the setgid bit.
//   - No NoNewPrivileges=: with it, SELinux policies must explicitly allow each transition
//     between domains (systemd issue 3845), so podrun and its child processes could run in
//     other domains than without it. Besides, the setting would prevent nothing: a process
//     with CAP_SYS_ADMIN does not need setuid programs.
//   - No MemoryDenyWriteExecute=: credential plugins may have a JIT compiler.
const hardening = `# Restrictions of podrun, its mount helpers and credential plugins. Containers do not
# inherit them: containers are processes of the container runtime, and the embedded runtime
# is a separate service. No option may give this service a mount namespace (ProtectSystem=,
# PrivateTmp=, PrivateDevices=, ProtectKernelModules= and others of systemd.exec(5)): the
# runtime would not see the volumes that podrun mounts.
UMask=0077
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_TIME CAP_SYS_RAWIO CAP_SYS_PACCT CAP_SYS_TTY_CONFIG
CapabilityBoundingSet=~CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_AUDIT_WRITE CAP_BLOCK_SUSPEND CAP_BPF CAP_IPC_LOCK CAP_LEASE
CapabilityBoundingSet=~CAP_LINUX_IMMUTABLE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_MKNOD CAP_PERFMON CAP_SYSLOG CAP_WAKE_ALARM
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @resources @swap
SystemCallErrorNumber=EPERM
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=net
RestrictRealtime=yes
LockPersonality=yes
DevicePolicy=closed
`

// commandLine returns the value of ExecStart.
func commandLine(o UnitOptions) (string, error) {
	if !path.IsAbs(o.Binary) {
		return "", fmt.Errorf("binary %q: systemd requires an absolute path", o.Binary)
	}
	// systemd does not accept quotes and backslashes in the path of a program. It also does not
	// expand variables in this path, in contrast to arguments, so $$ cannot represent a dollar
	// sign.
	if strings.ContainsAny(o.Binary, "$\"'\\") {
		return "", fmt.Errorf("binary %q: systemd does not support the path of a program with a dollar sign, a quote or a backslash: move podrun", o.Binary)
	}
	for _, source := range o.Sources {
		if !path.IsAbs(source) && !strings.HasPrefix(source, "https://") {
			return "", fmt.Errorf("source %q: neither an absolute path nor an https URL", source)
		}
	}
	words := append([]string{o.Binary, "serve"}, o.Flags...)
	words = append(words, o.Sources...)
	if len(words) > maxArguments {
		return "", fmt.Errorf("%d arguments, more than the limit of %d: use the settings file", len(words), maxArguments)
	}
	for i, word := range words {
		if err := checkArgument(word); err != nil {
			return "", err
		}
		words[i] = quote(word)
	}
	return strings.Join(words, " "), nil
}

// reloadCommand returns the value of ExecReload. systemd replaces ${MAINPID} with the process ID of
// the service.
func reloadCommand(o UnitOptions) string { return quote(o.Binary) + " serve reload --pid=${MAINPID}" }

func checkArgument(word string) error {
	switch {
	case len(word) > maxArgument:
		return fmt.Errorf("argument %.40q…: longer than %d bytes", word, maxArgument)
	case !utf8.ValidString(word):
		return fmt.Errorf("argument %q: not UTF-8", word)
	case strings.ContainsFunc(word, unicode.IsControl):
		return fmt.Errorf("argument %q: contains a control character", word)
	}
	return nil
}

// plain are the characters that require no quotes in an argument, in addition to letters and
// digits.
const plain = "/._-=:,+@"

// quote formats an argument for ExecStart (systemd.service(5), command lines). systemd also expands
// specifiers and variables within quotes, so quote doubles % and $.
func quote(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	special := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(plain, r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// written reports whether Install wrote the given unit file.
func written(unit []byte) bool { return bytes.HasPrefix(unit, []byte(marker+"\n")) }
