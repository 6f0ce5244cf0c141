package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/exit"
)

// topics returns the texts of `podrun help TOPIC`. Each text fits a screen, and names the page
// with the details. Cobra lists commands without Run as help topics.
func topics(global *pflag.FlagSet) []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "Explain the exit codes of podrun", Long: exit.ExitHelp()},
		{Use: "config", Short: "Explain the settings file", Long: configHelp},
		{Use: "environment", Short: "List the environment variables that podrun reads", Long: environmentHelp(global)},
		{Use: "differences", Short: "List the main differences from the kubelet", Long: differencesHelp},
		{Use: "security", Short: "Explain what podrun trusts and what containers can reach", Long: securityHelp},
	}
}

const configHelp = `Every command reads /etc/podrun/config.yaml if it exists, or the file that --config
names, which must exist. A flag takes precedence over its environment variable, the
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

The fields of a KubeletConfiguration have the same meaning as for the kubelet. -v
lists the fields that podrun does not use. A PodrunConfiguration has
the settings that a KubeletConfiguration does not have. Its fields are named like the
global flags (rootDir for --root-dir, see 'podrun options'). Two have no global flag:

  sources                 directories and https URLs of 'podrun serve'
  persistentVolumeClaims  maps claims to directories of this host (--pvc)

If the file is invalid, every command exits with code 120 and prints all problems
with their line numbers. Details: podrun-config(5), docs/settings.md.`

// environmentHelp lists and describes the variables that do not belong to a flag.
func environmentHelp(global *pflag.FlagSet) string {
	count := 0
	global.VisitAll(func(*pflag.Flag) { count++ })
	return fmt.Sprintf(`Each of the %d global flags ('podrun options') has an environment variable:
PODRUN_ and the flag's name in capitals with underscores.

  PODRUN_ROOT_DIR         --root-dir
  PODRUN_NODE_LABELS      --node-labels, as a=b,c=d
  PODRUN_VERBOSE          --verbose, as true or false

A flag takes precedence over its variable, and the variable over the settings file.
podrun.service does not inherit the variables of your shell: use the settings file.

podrun also reads:

  CONTAINER_RUNTIME_ENDPOINT       the runtime's endpoint, as in crictl, if neither
                                   the flag nor the settings file has one
  DOCKER_CONFIG, HOME              where podrun finds registry credentials
  HTTPS_PROXY, NO_PROXY            for manifests at https URLs. Images are pulled by
                                   the runtime, with the runtime's proxy settings
  NO_COLOR, TERM                   no color if NO_COLOR is set or TERM is dumb
  NOTIFY_SOCKET, WATCHDOG_USEC     set by systemd for 'podrun serve'
  GOGC, GOMEMLIMIT                 settings of the Go runtime, which replace podrun's`, count)
}

const differencesHelp = `podrun runs a pod as the kubelet of Kubernetes ` + kubernetesVersion + ` runs a static pod. The main
differences:

- Supervision. 'podrun apply' returns when the pod has started. After that,
  containers are restarted and probed only while 'podrun serve', or another command
  such as 'podrun wait', supervises the pod. Running apply again restarts containers
  that have ended.
- Names. The pod keeps its name: the node's name is not appended.
- Manifests. Unknown fields are errors (--validate=warn relaxes this). ConfigMaps,
  Secrets, claims and classes come from the same input, since there is no API
  server. For a Deployment or another workload, podrun runs one pod. 'podrun serve'
  runs Jobs and CronJobs as their controllers do, one pod at a time.
- Services. Pods find Services through /etc/hosts instead of DNS. Virtual IPs require
  the embedded runtime.
- Changes. A changed pod is updated in place if an API server would accept the
  change, and is replaced otherwise, after its new images were pulled.
- Images. All images are pulled in parallel from the beginning; permanent errors,
  such as a missing image, fail immediately.
- Failures. If a command fails before the first container starts, it removes what
  it created, except images.
- Deletion. 'podrun delete' returns when everything is removed, including logs.
- Not supported: service account tokens, CSI volumes, device plugins, CPU and
  topology managers.

All differences, with reasons: docs/kubelet-differences.md. Every field of a Pod:
docs/pod-fields.md, or 'podrun explain FIELD'.`

const securityHelp = `podrun runs as root and trusts manifests within the limits of --pod-security and
--allow-privileged. By default, anyone who can write to a manifest directory, or
controls a URL that 'podrun serve' reads, can start a privileged pod and thus become
root.

  --pod-security=baseline|restricted   enforces the Pod Security Standards
  --allow-privileged=false             refuses privileged containers
  --allowed-unsafe-sysctls             allows unsafe sysctls; none by default
  --seccomp-default                    uses the runtime's profile for pods without one
  hostUsers: false (in the pod)        runs the pod in a user namespace

podrun does not trust containers. It reads only a limited amount of their output: files
in volumes, logs, termination messages and terminals. podrun does not follow symbolic
links in a volume to paths outside the volume. It escapes control characters, except in
the output of 'logs', 'exec' and 'attach'.

A registry receives only its own credentials, and messages do not show credentials.
If one pod pulled an image with a Secret, other pods need the same credentials to
use this image (KEP-2535).

Secrets are kept in files that only root can read, or with --secrets=memory in a
tmpfs. The runtime stores the environment variables of containers on disk, including
those from Secrets: mount Secrets as volumes instead.

'podrun serve' has an HTTP API on a unix socket for root. --socket-group gives a
group access, which is equivalent to root. --listen adds a TCP address, which
requires client certificates and does not provide exec, attach or port-forward. A
second socket, for the group podrun, provides only metrics and the status of pods.

Details: docs/security.md.`
