// Package config reads the settings of a command: flags, environment variables and the settings file, or the last valid
// content of the file.
package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// Flags binds the node's settings to flags with the kubelet's names. A flag
// overrides the settings file if it was set on the command line or by PODRUN_<FLAG>.
type Flags struct {
	Ctx    context.Context // the context of the command, once the command runs
	Config string
	Set    *pflag.FlagSet
	Into   map[string]func(*nodeconfig.Settings)
	Merged *Merged       // the last result of reload; nil before the first
	Given  []*pflag.Flag // set on the command line
	For    Use
	Copies string // directory with the last valid settings
	// content is what reload has read; nil if there is no file
	content []byte
	// fault describes the file if merged is not its content; else ""
	Fault string
	// set by an environment variable
	FromEnv []*pflag.Flag
}

// Merged are settings and the warnings about their file.
type Merged struct {
	nodeconfig.Settings
	notes problem.List
}

// EnvName returns the environment variable of a flag, such as PODRUN_ROOT_DIR for
// --root-dir.
func EnvName(flag string) string {
	return "PODRUN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func Add(set *pflag.FlagSet) *Flags {
	f := &Flags{Ctx: context.Background(), Set: set, Into: map[string]func(*nodeconfig.Settings){}}
	def := nodeconfig.Default()
	set.StringVar(&f.Config, "config", nodeconfig.ConfigFile(), "settings `file` with a KubeletConfiguration, a PodrunConfiguration or both; the default file is optional; an empty value means no file")
	f.text("root-dir", def.RootDir, "`directory` for podrun's state", func(s *nodeconfig.Settings, v string) { s.RootDir = v })
	f.choice("secrets", nodeconfig.SecretsOnDisk, nodeconfig.SecretsPlaces, "`place` where podrun keeps Secrets of pods: disk (in files that only root can read) or memory (a reboot deletes them: apply pods with Secrets again after a reboot)", func(s *nodeconfig.Settings, v string) { s.Secrets = v })
	f.text("pod-logs-dir", def.PodLogsDir, "`directory` for pod logs", func(s *nodeconfig.Settings, v string) { s.PodLogsDir = v })
	f.text("container-logs-dir", def.ContainerLogsDir, "`directory` for links to container logs", func(s *nodeconfig.Settings, v string) { s.ContainerLogsDir = v })
	f.checkedText("runtime", nodeconfig.RuntimeAuto, "container `runtime`: auto (the runtime that podrun already uses; at first this host's runtime or, if this host has none, the embedded runtime), embedded, or a socket", func(s *nodeconfig.Settings, v string) error {
		s.Runtime = v
		return nodeconfig.CheckRuntime(v)
	})
	f.text("container-runtime-endpoint", "", "`socket` of the container runtime, an alternative to --runtime (default: the first of containerd's and CRI-O's sockets that answers)", func(s *nodeconfig.Settings, v string) { s.ContainerRuntimeEndpoint = v })
	f.text("image-service-endpoint", "", "`socket` of the image service (default: the runtime's)", func(s *nodeconfig.Settings, v string) { s.ImageServiceEndpoint = v })
	f.text("hostname-override", "", "`name` of this node instead of the hostname", func(s *nodeconfig.Settings, v string) { s.HostnameOverride = v })
	f.list("node-ip", "`addresses` of this node, at most one IPv4 and one IPv6", func(s *nodeconfig.Settings, v []string) { s.NodeIP = v })
	f.pairs("node-labels", "`labels` of this node (key=value,…)", func(s *nodeconfig.Settings, v map[string]string) { s.NodeLabels = v })
	f.checkedText("pod-cidr", "", "`subnets` of pods on the embedded runtime: one, or an IPv4 and an IPv6 one, separated by a comma (default: a private /24 that this host does not use and, if it uses IPv6, a unique local /64)", func(s *nodeconfig.Settings, v string) error {
		s.PodCIDR = v
		_, err := nodeconfig.ParsePodCIDR(v)
		return err
	})
	f.list("cluster-dns", "`addresses` of name servers for pods with dnsPolicy ClusterFirst", func(s *nodeconfig.Settings, v []string) { s.ClusterDNS = v })
	f.text("cluster-domain", def.ClusterDomain, "`domain` searched by pods with dnsPolicy ClusterFirst", func(s *nodeconfig.Settings, v string) { s.ClusterDomain = v })
	f.text("resolv-conf", def.ResolvConf, "resolver `file` of the host; an empty value means no file", func(s *nodeconfig.Settings, v string) { s.ResolvConf = v })
	f.text("cgroup-root", def.CgroupRoot, "`path` of the parent cgroup of kubepods", func(s *nodeconfig.Settings, v string) { s.CgroupRoot = v })
	f.text("cgroup-driver", def.CgroupDriver, "cgroupfs or systemd (default: the runtime's)", func(s *nodeconfig.Settings, v string) { s.CgroupDriver = v })
	f.boolean("cpu-cfs-quota", def.CPUCFSQuota, "enforce CPU limits", func(s *nodeconfig.Settings, v bool) { s.CPUCFSQuota = v })
	f.boolean("seccomp-default", def.SeccompDefault, "use RuntimeDefault for containers without a seccomp profile", func(s *nodeconfig.Settings, v bool) { s.SeccompDefault = v })
	f.number("max-pods", int64(def.MaxPods), "maximum number of pods on this node", func(s *nodeconfig.Settings, v int64) { s.MaxPods = int32(v) })
	f.number("pod-max-pids", def.PodPidsLimit, "maximum number of processes in a pod; -1 for no limit", func(s *nodeconfig.Settings, v int64) { s.PodPidsLimit = v })
	f.number("registry-qps", int64(def.RegistryPullQPS), "image pulls per second; 0 for no limit", func(s *nodeconfig.Settings, v int64) { s.RegistryPullQPS = int32(v) })
	f.number("registry-burst", int64(def.RegistryBurst), "burst of image pulls above --registry-qps", func(s *nodeconfig.Settings, v int64) { s.RegistryBurst = int32(v) })
	f.number("max-parallel-image-pulls", int64(def.MaxParallelImagePulls), "maximum number of parallel image pulls; 0 for no limit", func(s *nodeconfig.Settings, v int64) { s.MaxParallelImagePulls = int32(v) })
	f.choice("retry-pull", "auto", []string{"auto", "always"}, "`errors` of pulls to retry: auto (transient errors) or always", func(s *nodeconfig.Settings, v string) { s.RetryPullAlways = v == "always" })
	f.duration("pull-timeout", 0, "time limit for each image, including retries; 0 for no limit other than --timeout (default: 10m for run, 0 for other commands)", func(s *nodeconfig.Settings, v time.Duration) { s.PullTimeout = &v })
	f.duration("pull-stall-timeout", def.PullStall, "retry a pull that receives less than 1 MiB in this time, or whose registry does not answer (containerd only); 0 for no limit", func(s *nodeconfig.Settings, v time.Duration) { s.PullStall = v })
	f.text("registry-auth", "", "docker config `file` with registry credentials, used after a pod's imagePullSecrets", func(s *nodeconfig.Settings, v string) { s.RegistryAuth = v })
	f.text("image-credential-provider-config", "", "`file` with the CredentialProviderConfig of the credential provider plugins", func(s *nodeconfig.Settings, v string) { s.ProviderConfig = v })
	f.text("image-credential-provider-bin-dir", "", "`directory` of the credential provider plugins", func(s *nodeconfig.Settings, v string) { s.ProviderBinDir = v })
	f.checkedText("pvc-dir", "", "`directory` for PersistentVolumeClaims without a volume: each has a subdirectory NAMESPACE_NAME, which podrun keeps when it deletes pods, unless --delete-volumes is set", setClaimDir)
	f.pairs("system-reserved", "`resources` reserved for the system (cpu=200m,memory=500Mi)", func(s *nodeconfig.Settings, v map[string]string) { s.SystemReserved = v })
	f.pairs("kube-reserved", "`resources` reserved for podrun and the runtime", func(s *nodeconfig.Settings, v map[string]string) { s.KubeReserved = v })
	f.list("allowed-unsafe-sysctls", "`sysctls` outside the safe list that pods may set; a trailing * is a wildcard", func(s *nodeconfig.Settings, v []string) { s.AllowedUnsafeSysctls = v })
	f.thresholds("eviction-hard", "`thresholds` of free resources: below them, podrun refuses pods and 'podrun serve' evicts pods (memory.available<100Mi,nodefs.available<10%); an empty value means no thresholds", func(s *nodeconfig.Settings, v map[string]string) { s.EvictionHard = v })
	f.checkedText("register-with-taints", "", "`taints` of this node (key=value:effect,…); pods must tolerate NoExecute taints", func(s *nodeconfig.Settings, v string) (err error) {
		s.RegisterWithTaints, err = nodeconfig.ParseTaints(v)
		return err
	})
	f.checkedStrings("device", "assign a CDI device to pods that request the extended resource NAME: `NAME=CDI-ID`; repeatable", setDevices)
	f.boolean("allow-privileged", def.AllowPrivileged, "allow privileged containers", func(s *nodeconfig.Settings, v bool) { s.AllowPrivileged = v })
	f.checkedText("pod-security", def.PodSecurity, "Pod Security Standards `level` that pods must meet: privileged, baseline or restricted", func(s *nodeconfig.Settings, v string) error {
		s.PodSecurity = v
		if !slices.Contains(nodeconfig.PodSecurityLevels, v) {
			return fmt.Errorf("%q is not privileged, baseline or restricted", v)
		}
		return nil
	})
	f.boolean("require-limits", def.RequireLimits, "refuse pods whose limits podrun cannot enforce, because an ordinary user may have no cgroups; otherwise, podrun prints a warning", func(s *nodeconfig.Settings, v bool) { s.RequireLimits = v })
	f.choice("user-namespaces", nodeconfig.UserNamespacesPod, nodeconfig.UserNamespaceModes, "`pods` that get a user namespace: pod (only pods with hostUsers: false) or prefer (also new pods that do not set hostUsers, if this host, their volumes and their privileges allow it)", func(s *nodeconfig.Settings, v string) { s.UserNamespaces = v })
	f.choice("start-order", nodeconfig.StartInOrder, nodeconfig.StartOrders, "`order` in which the app containers of a pod start: kubelet (one after another, in the order of the manifest), strict (like kubelet, but podrun also creates each container only after the previous one has started) or parallel (containers without a postStart hook start together); the annotation podrun.dev/start-order of a pod takes precedence", func(s *nodeconfig.Settings, v string) { s.StartOrder = v })
	f.boolean("preempt", def.Preempt, "stop other podrun pods if a critical pod needs their resources", func(s *nodeconfig.Settings, v bool) { s.Preempt = v })
	f.boolean("runtime-recover", def.RuntimeRecover, "replace the store of the embedded runtime if it is damaged: 'podrun serve' and 'podrun runtime up' then end all containers, and 'podrun serve' starts the pods again", func(s *nodeconfig.Settings, v bool) { s.RuntimeRecover = v })
	f.duration("runtime-request-timeout", def.RuntimeRequestTimeout, "timeout of runtime requests", func(s *nodeconfig.Settings, v time.Duration) { s.RuntimeRequestTimeout = v })
	return f
}

func setClaimDir(s *nodeconfig.Settings, v string) (err error) {
	if s.ClaimDir = v; v != "" {
		s.ClaimDir, err = filepath.Abs(v)
	}
	return err
}

func setDevices(s *nodeconfig.Settings, v []string) (err error) {
	s.Devices, err = nodeconfig.ParseDevices(v)
	return err
}

func (f *Flags) text(name, def, usage string, into func(*nodeconfig.Settings, string)) {
	v := f.Set.String(name, def, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

// choice adds a flag that accepts one of several words.
func (f *Flags) choice(name, def string, of []string, usage string, into func(*nodeconfig.Settings, string)) {
	v := &OneOf{Value: def, Of: of}
	f.Set.Var(v, name, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, v.Value) }
}

// OneOf is the value of a flag that accepts one of several words.
type OneOf struct {
	Value string
	Of    []string
}

func (o *OneOf) String() string { return o.Value }
func (o *OneOf) Type() string   { return "string" }

// Set stores the word if it is valid.
func (o *OneOf) Set(v string) error {
	if !slices.Contains(o.Of, v) {
		return fmt.Errorf("not %s", strings.Join(o.Of, " or "))
	}
	o.Value = v
	return nil
}

// checkedText adds a text flag whose value is validated when it is set.
func (f *Flags) checkedText(name, def, usage string, into func(*nodeconfig.Settings, string) error) {
	v := &parsedText{text: def, check: func(text string) error { return into(&nodeconfig.Settings{}, text) }}
	f.Set.Var(v, name, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { _ = into(s, v.text) } // Set has already checked the value
}

// parsedText is a flag's value that is validated when it is set.
type parsedText struct {
	text  string
	check func(string) error
}

func (v *parsedText) String() string { return v.text }
func (v *parsedText) Type() string   { return "string" }
func (v *parsedText) Set(text string) error {
	v.text = text
	return v.check(text)
}

func (f *Flags) list(name, usage string, into func(*nodeconfig.Settings, []string)) {
	v := f.Set.StringSlice(name, nil, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

// checkedStrings adds a list flag whose values are validated when they are set.
func (f *Flags) checkedStrings(name, usage string, into func(*nodeconfig.Settings, []string) error) {
	v := &checkedStrings{check: func(list []string) error { return into(&nodeconfig.Settings{}, list) }}
	f.Set.Var(v, name, usage)
	// Set has already checked the values.
	f.Into[name] = func(s *nodeconfig.Settings) { _ = into(s, v.list) }
}

// checkedStrings is the value of a flag that may be repeated, or contain several values
// separated by commas.
type checkedStrings struct {
	list  []string
	check func([]string) error
}

func (v *checkedStrings) String() string { return strings.Join(v.list, ",") }
func (v *checkedStrings) Type() string   { return "strings" }

// Set appends to the list.
func (v *checkedStrings) Set(text string) error {
	v.list = append(v.list, strings.Split(text, ",")...)
	return v.check(v.list)
}

func (f *Flags) pairs(name, usage string, into func(*nodeconfig.Settings, map[string]string)) {
	v := f.Set.StringToString(name, nil, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

// thresholds adds a flag with signal<value pairs, as the kubelet's --eviction-hard.
func (f *Flags) thresholds(name, usage string, into func(*nodeconfig.Settings, map[string]string)) {
	v := &Thresholds{}
	f.Set.Var(v, name, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

// Thresholds is the value of --eviction-hard.
type Thresholds map[string]string

// Set parses signal<value,…; each call replaces the previous value.
func (t *Thresholds) Set(text string) error {
	*t = Thresholds{}
	for _, pair := range strings.Split(text, ",") {
		if pair == "" {
			continue
		}
		signal, value, ok := strings.Cut(pair, "<")
		if !ok || signal == "" || value == "" {
			return fmt.Errorf("%q is not signal<value", pair)
		}
		(*t)[signal] = value
	}
	return nil
}

// String returns the sorted pairs, or "" if none are set, so that the help shows no
// default.
func (t *Thresholds) String() string {
	var pairs []string
	for _, signal := range slices.Sorted(maps.Keys(*t)) {
		pairs = append(pairs, signal+"<"+(*t)[signal])
	}
	return strings.Join(pairs, ",")
}

// Type returns the name of the value in the help.
func (t *Thresholds) Type() string { return "thresholds" }

func (f *Flags) boolean(name string, def bool, usage string, into func(*nodeconfig.Settings, bool)) {
	v := f.Set.Bool(name, def, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

func (f *Flags) number(name string, def int64, usage string, into func(*nodeconfig.Settings, int64)) {
	v := f.Set.Int64(name, def, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

func (f *Flags) duration(name string, def time.Duration, usage string, into func(*nodeconfig.Settings, time.Duration)) {
	v := f.Set.Duration(name, def, usage)
	f.Into[name] = func(s *nodeconfig.Settings) { into(s, *v) }
}

// Settings merges the defaults, the file, the environment and the flags, each of which
// overrides the previous ones. It also returns warnings about the file. A command reads the
// file only once, because it may be a pipe. If the file cannot be used, settings returns what
// f.use substitutes.
func (f *Flags) Settings() (nodeconfig.Settings, problem.List, error) {
	if f.Merged != nil {
		return f.Merged.Settings, f.Merged.notes, nil
	}
	s, notes, err := f.Reload()
	if err != nil {
		return f.substituted(err)
	}
	return s, notes, nil
}

// Reload is like settings, but reads the file again, for SIGHUP. After an error, the previous
// settings remain in effect.
func (f *Flags) Reload() (nodeconfig.Settings, problem.List, error) {
	data, err := f.read()
	if err != nil {
		return nodeconfig.Settings{}, nil, err
	}
	s, notes, err := f.merge(f.parse(data))
	if err != nil {
		return s, nil, err
	}
	f.Merged = &Merged{s, notes}
	f.content = data
	f.Fault = ""
	return s, notes, nil
}

// absoluteRoot makes the root directory absolute: podrun recognizes its own pods by its path.
func absoluteRoot(s *nodeconfig.Settings) {
	if dir, err := filepath.Abs(s.RootDir); err == nil {
		s.RootDir = dir
	}
}

// oneRuntime combines --runtime and --container-runtime-endpoint, which specify the same thing.
// If both are set, the one from the source with the higher precedence takes effect.
// CONTAINER_RUNTIME_ENDPOINT, crictl's variable, is used only if neither is set.
func (f *Flags) oneRuntime(s *nodeconfig.Settings) error {
	byRuntime, byEndpoint := f.precedence("runtime", s.Runtime), f.precedence("container-runtime-endpoint", s.ContainerRuntimeEndpoint)
	if byRuntime == byEndpoint && byRuntime > 0 && s.Runtime != s.ContainerRuntimeEndpoint {
		return &problem.Error{
			Kind:   problem.Usage,
			Object: "--runtime",
			Err:    fmt.Errorf("%s and --container-runtime-endpoint=%s contradict each other", s.Runtime, s.ContainerRuntimeEndpoint),
			Hint:   "set only one of them",
		}
	}
	if byRuntime <= byEndpoint {
		s.Runtime = ""
		if s.ContainerRuntimeEndpoint == "" {
			s.ContainerRuntimeEndpoint = os.Getenv("CONTAINER_RUNTIME_ENDPOINT")
		}
		return nil
	}
	s.ContainerRuntimeEndpoint = ""
	if s.Runtime != nodeconfig.RuntimeAuto && s.Runtime != nodeconfig.RuntimeEmbedded {
		s.Runtime, s.ContainerRuntimeEndpoint = "", s.Runtime
	}
	return nil
}

// precedence returns the source of a flag's value: 3 for the command line, 2 for the
// environment, 1 for the file, 0 for none.
func (f *Flags) precedence(flag, value string) int {
	switch g := f.Set.Lookup(flag); {
	case value == "":
		return 0
	case slices.Contains(f.FromEnv, g):
		return 2
	case g.Changed:
		return 3
	}
	return 1
}

// read returns the content of the settings file; nil if there is none. The default file is
// optional; a file named by --config or PODRUN_CONFIG must exist.
func (f *Flags) read() ([]byte, error) {
	if f.Config == "" {
		return nil, nil
	}
	object, hint := "--config", "check the path; 'podrun help config' describes the file"
	if !f.Set.Changed("config") {
		object, hint = "settings", "run podrun as a user that can read the file, specify another file with --config FILE, or use no settings file with --config="
	}
	data, err := nodeconfig.ReadFile(f.Ctx, f.Config)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !f.Set.Changed("config"):
		return nil, nil
	case errors.Is(err, context.DeadlineExceeded): // the file is not the cause
		return nil, &problem.Error{Kind: problem.Deadline, Object: object, Err: err, Hint: "increase --timeout"}
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, &problem.Error{Kind: problem.Usage, Object: object, Err: err, Hint: hint}
	case data == nil:
		data = []byte{} // an empty file is not an absent one
	}
	return data, nil
}

// parse applies the content of the settings file to the defaults; data is nil if there is none.
func (f *Flags) parse(data []byte) (nodeconfig.Settings, problem.List, error) {
	s := nodeconfig.Default()
	if data == nil {
		return s, nil, nil
	}
	s, notes := nodeconfig.Parse(data, s)
	s.File = f.Config
	for i := range notes {
		notes[i].File = f.Config
	}
	return s, notes, problem.Refuse(problem.Usage, notes)
}

// SetFromEnv sets each flag that is not on the command line from its PODRUN_<FLAG>
// variable, and records the source of each flag.
func (f *Flags) SetFromEnv() error {
	var first error
	f.Set.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			f.Given = append(f.Given, flag)
			return
		}
		value, ok := os.LookupEnv(EnvName(flag.Name))
		if !ok || first != nil {
			return
		}
		f.FromEnv = append(f.FromEnv, flag)
		if err := f.Set.Set(flag.Name, value); err != nil {
			first = &problem.Error{Kind: problem.Usage, Object: EnvName(flag.Name), Err: envError(flag, value, err),
				Hint: "correct or unset " + EnvName(flag.Name) + ", which sets --" + flag.Name}
		}
	})
	return first
}

// envError describes an invalid value of an environment variable.
func envError(flag *pflag.Flag, value string, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalid.Unwrap()
	}
	switch flag.Value.Type() {
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return fmt.Errorf("%q is not a duration such as 30s or 5m", value)
	case "int64":
		return fmt.Errorf("%q is not a whole number", value)
	}
	return fmt.Errorf("%q is not a valid value for --%s: %w", value, flag.Name, err)
}
