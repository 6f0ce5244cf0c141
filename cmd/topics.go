package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// topics are the texts of `podrun help TOPIC`: each fits a screen and names the page
// that has the details. Cobra lists commands without Run as help topics.
func topics(global *pflag.FlagSet) []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "Explain the exit codes of podrun", Long: exitHelp()},
		{Use: "config", Short: "Explain the settings file", Long: configHelp},
		{Use: "environment", Short: "List the environment variables that podrun reads", Long: environmentHelp(global)},
		{Use: "differences", Short: "List the main differences from the kubelet", Long: differencesHelp},
		{Use: "security", Short: "Explain what podrun trusts and what containers can reach", Long: securityHelp},
	}
}

// isTopic reports whether c is a help topic.
func isTopic(c *cobra.Command) bool { return !c.Runnable() && !c.HasSubCommands() }

const configHelp = `Every command reads /etc/podrun/config.yaml if it exists, or the file of --config,
which must exist. A flag takes precedence over its environment variable, the
variable over the file, and the file over the default.

The file holds one or both of these documents:

  apiVersion: kubelet.config.k8s.io/v1beta1
  kind: KubeletConfiguration
  maxPods: 40
  clusterDNS: [10.96.0.10]
  systemReserved: {memory: 200Mi}
  ---
  apiVersion: podrun.dev/v1alpha1
  kind: PodrunConfiguration
  rootDir: /var/lib/podrun
  sources: [/etc/podrun/manifests]
  registryAuth: /etc/podrun/auth.json
  podSecurity: baseline

The fields of a KubeletConfiguration mean what they mean to the kubelet. -v reports
those that podrun does not use. A PodrunConfiguration has the settings that the
kubelet's file has no field for; its fields are named like the global flags
(rootDir for --root-dir, see 'podrun options'), and these have no flag, or one that
is not global:

  sources                 directories and https URLs of 'podrun serve'
  persistentVolumeClaims  directories of this host by claim (--pvc)

An invalid file ends every command with exit code 120; all problems are printed with
their lines. Details: podrun-config(5), docs/settings.md.`

// environmentHelp lists the variables that are not those of flags, and describes these.
func environmentHelp(global *pflag.FlagSet) string {
	count := 0
	global.VisitAll(func(*pflag.Flag) { count++ })
	return fmt.Sprintf(`Each of the %d global flags ('podrun options') has an environment variable: its name
in capitals, with underscores, after PODRUN_:

  PODRUN_ROOT_DIR         --root-dir
  PODRUN_NODE_LABELS      --node-labels, as a=b,c=d
  PODRUN_VERBOSE          --verbose, as true or false

A flag takes precedence over its variable, and the variable over the settings file.
podrun.service does not have the variables of your shell: use the settings file.

podrun also reads:

  CONTAINER_RUNTIME_ENDPOINT       the runtime's endpoint, as crictl does, if neither
                                   the flag nor the settings file has one
  DOCKER_CONFIG, HOME              where registry credentials are looked up
  HTTPS_PROXY, NO_PROXY            for manifests at https URLs. Images are pulled by
                                   the runtime, with the runtime's proxy settings
  NO_COLOR, TERM                   no color if NO_COLOR is set or TERM is dumb
  NOTIFY_SOCKET, WATCHDOG_USEC     set by systemd for 'podrun serve'
  GOGC, GOMEMLIMIT                 of the Go runtime, instead of podrun's defaults`, count)
}

const differencesHelp = `podrun does what the kubelet of Kubernetes ` + kubernetesVersion + ` does with a static pod. The main
differences:

- Supervision. 'podrun apply' returns when the pod has started; from then on
  containers are restarted and probed only while 'podrun serve', or another command
  such as 'podrun wait', works on the pod. Running apply again restarts containers
  that have ended.
- Names. The pod keeps its name: the node's name is not appended.
- Manifests. Unknown fields are errors (--validate=warn relaxes this). ConfigMaps,
  Secrets, claims and classes come from the same input, since there is no API
  server. Of a Deployment or another workload, podrun runs one pod.
- Changes. A changed pod is updated in place if an API server would accept the
  change, and is replaced otherwise, after its new images were pulled.
- Images. All images are pulled in parallel from the beginning; permanent errors,
  such as a missing image, fail immediately.
- Failures. If a command fails before the first container starts, it removes what
  it created, except images.
- Deletion. 'podrun delete' returns when everything is removed, including logs.
- Not supported: Services and service environment variables, service account
  tokens, CSI volumes, device plugins, CPU and topology managers.

All differences, with reasons: docs/kubelet-differences.md. Every field of a Pod:
docs/pod-fields.md, or 'podrun explain FIELD'.`

const securityHelp = `podrun runs as root and trusts its manifests as far as --pod-security and
--allow-privileged do: whoever may write a manifest directory, or control a URL that
'podrun serve' reads, can by default start a privileged pod, and so is root.

  --pod-security=baseline|restricted   enforces the Pod Security Standards
  --allow-privileged=false             refuses privileged containers
  --allowed-unsafe-sysctls             none by default
  --seccomp-default                    the runtime's profile for pods that set none
  hostUsers: false (in the pod)        a user namespace

Containers are not trusted. What they write to volumes, logs, termination messages
and the terminal is read within limits; paths below volumes are opened so that
symbolic links cannot lead outside; control characters are escaped, except in the
output of 'logs', 'exec' and 'attach'.

Registries are not trusted with more than the credentials that are theirs, and
messages do not show credentials. A pod may use an image that another pod pulled
with a Secret only with the same credentials (KEP-2535).

Secrets are kept in files that only root can read, or with --secrets=memory in a
tmpfs. The runtime stores environment variables of containers on disk, also those
from Secrets: use volumes for these.

The HTTP API of 'podrun serve' is on a unix socket of root. Access to it, which
--socket-group gives to a group, is equivalent to root. --listen adds TCP, with
client certificates only, and without exec, attach and port-forward. A second
socket, for the group podrun, provides only metrics and the status of pods.

Details: docs/security.md.`
