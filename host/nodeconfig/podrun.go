package nodeconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podrun/podrun/internal/identity"
)

// PodrunConfiguration (podrun.dev/v1alpha1) has the settings that a KubeletConfiguration does not
// have. A nil field keeps the current setting. The names and defaults are those of the flags. Paths
// are absolute and clean.
type PodrunConfiguration struct {
	Profile          *string `json:"profile"` // one of Profiles
	RootDir          *string `json:"rootDir"`
	Secrets          *string `json:"secrets"` // disk or memory
	ContainerLogsDir *string `json:"containerLogsDir"`
	Runtime          *string `json:"runtime"` // auto, embedded or a socket
	// Sources are directories and https URLs of manifests that `podrun serve` runs.
	Sources []string `json:"sources"`

	HostnameOverride *string           `json:"hostnameOverride"`
	NodeIP           []string          `json:"nodeIP"` // at most one IPv4 and one IPv6
	NodeLabels       map[string]string `json:"nodeLabels"`

	// PersistentVolumeClaims maps a claim name, in every namespace, to a directory of this host,
	// like --pvc.
	PersistentVolumeClaims map[string]string `json:"persistentVolumeClaims"`
	// PersistentVolumeClaimDir is the directory that has a subdirectory for each claim without a volume.
	PersistentVolumeClaimDir *string `json:"persistentVolumeClaimDir"`
	// Devices maps an extended resource to CDI devices, like --device.
	Devices map[string][]string `json:"devices"`

	RegistryAuth     *string          `json:"registryAuth"`                  // path of a docker config; "" for none
	ProviderConfig   *string          `json:"imageCredentialProviderConfig"` // path; "" for none
	ProviderBinDir   *string          `json:"imageCredentialProviderBinDir"` // path; "" for none
	RetryPull        *string          `json:"retryPull"`                     // auto or always
	PullTimeout      *metav1.Duration `json:"pullTimeout"`                   // 0: no limit; nil: the command's default
	PullStallTimeout *metav1.Duration `json:"pullStallTimeout"`              // 0: no limit

	AllowPrivileged *bool   `json:"allowPrivileged"`
	PodSecurity     *string `json:"podSecurity"` // privileged, baseline or restricted
	StartOrder      *string `json:"startOrder"`  // kubelet, strict or parallel
	RequireLimits   *bool   `json:"requireLimits"`
	AllowMetadata   *bool   `json:"allowMetadata"`
	Preempt         *bool   `json:"preempt"`
	AllowKubelet    *bool   `json:"allowKubelet"`
	RuntimeRecover  *bool   `json:"runtimeRecover"`
	StrictSources   *bool   `json:"strictSources"`
	ReadOnlyAPI     *bool   `json:"readOnlyAPI"`
	ImagePolicy     *string `json:"imagePolicy"` // any or verified
	ImageVerifiers  *string `json:"imageVerifierDir"`
	UserNamespaces  *string `json:"userNamespaces"` // pod or prefer

	Replicas *string `json:"replicas"` // ignore or honour

	ProgressDeadline *metav1.Duration `json:"progressDeadline"` // 0: podrun does not watch updates

	Namespace *string `json:"namespace"` // for pods that specify none
	Verbose   *bool   `json:"verbose"`
	Color     *string `json:"color"`
}

// The limits of a PodrunConfiguration. Larger values are mistakes or attacks.
const (
	maxSources = 64
	maxEntries = 1024 // in a mapping
)

// podrun (the method) applies a PodrunConfiguration to base.
func (f *file) podrun(fields map[string]json.RawMessage, base Settings) Settings {
	var pc PodrunConfiguration
	f.fill(&pc, fields)
	f.checkPodrun(&pc)
	if len(f.problems.Errors()) > 0 {
		return base
	}
	return mergePodrun(base, &pc)
}

func (f *file) checkPodrun(pc *PodrunConfiguration) {
	for _, dir := range []struct {
		field string
		value *string
	}{{"rootDir", pc.RootDir}, {"containerLogsDir", pc.ContainerLogsDir}} {
		if dir.value != nil {
			f.checkPath(dir.field, *dir.value)
		}
	}
	for _, name := range []struct{ field, value string }{
		{"persistentVolumeClaimDir", deref(pc.PersistentVolumeClaimDir, "")},
		{"registryAuth", deref(pc.RegistryAuth, "")},
		{"imageCredentialProviderConfig", deref(pc.ProviderConfig, "")},
		{"imageCredentialProviderBinDir", deref(pc.ProviderBinDir, "")},
		{"imageVerifierDir", deref(pc.ImageVerifiers, "")},
	} {
		if name.value != "" {
			f.checkPath(name.field, name.value)
		}
	}
	for _, limit := range []struct {
		field string
		value *metav1.Duration
	}{{"pullTimeout", pc.PullTimeout}, {"pullStallTimeout", pc.PullStallTimeout}, {"progressDeadline", pc.ProgressDeadline}} {
		if limit.value != nil && limit.value.Duration < 0 {
			f.invalid(limit.field, fmt.Sprintf("%s is negative", limit.value.Duration), "0 means no limit")
		}
	}
	if r := deref(pc.RetryPull, "auto"); r != "auto" && r != "always" {
		f.invalid("retryPull", fmt.Sprintf("%q is not auto or always", r), "")
	}
	if s := deref(pc.Secrets, SecretsOnDisk); !slices.Contains(SecretsPlaces, s) {
		f.invalid("secrets", fmt.Sprintf("%q is not disk or memory", s), "")
	}
	if err := CheckRuntime(deref(pc.Runtime, RuntimeAuto)); err != nil {
		f.invalid("runtime", err.Error(), "")
	}
	if c := deref(pc.Color, ""); c != "" && !slices.Contains(Colors, c) {
		f.invalid("color", fmt.Sprintf("%q is not %s", c, strings.Join(Colors, ", ")), "")
	}
	if o := deref(pc.StartOrder, StartInOrder); !slices.Contains(StartOrders, o) {
		f.invalid("startOrder", fmt.Sprintf("%q is not kubelet, strict or parallel", o), "")
	}
	if r := deref(pc.Replicas, ReplicasIgnore); !slices.Contains(ReplicasModes, r) {
		f.invalid("replicas", fmt.Sprintf("%q is not %s", r, strings.Join(ReplicasModes, " or ")), "")
	}
	if p := deref(pc.ImagePolicy, ImagePolicyAny); !slices.Contains(ImagePolicies, p) {
		f.invalid("imagePolicy", fmt.Sprintf("%q is not %s", p, strings.Join(ImagePolicies, " or ")), "")
	}
	if n := pc.Profile; n != nil && !slices.Contains(Profiles, *n) {
		f.invalid("profile", fmt.Sprintf("unknown profile %q", *n), strings.Join(Profiles, ", "))
	}
	if u := deref(pc.UserNamespaces, UserNamespacesPod); !slices.Contains(UserNamespaceModes, u) {
		f.invalid("userNamespaces", fmt.Sprintf("%q is not %s", u, strings.Join(UserNamespaceModes, " or ")), "")
	}
	if l := deref(pc.PodSecurity, "privileged"); !slices.Contains(PodSecurityLevels, l) {
		f.invalid("podSecurity", fmt.Sprintf("%q is not a level of the Pod Security Standards", l), strings.Join(PodSecurityLevels, ", "))
	}
	if n := deref(pc.Namespace, "default"); len(validation.IsDNS1123Label(n)) > 0 {
		f.invalid("namespace", fmt.Sprintf("%q is not a valid namespace", n), "lower-case letters, digits and '-', at most 63")
	}
	f.checkSources(pc.Sources)
	f.checkNode(pc)
	f.checkClaims(pc.PersistentVolumeClaims)
	f.checkDevices(pc.Devices)
}

// The values of imagePolicy.
const (
	ImagePolicyAny      = "any"
	ImagePolicyVerified = "verified"
)

// ImageVerifiers returns the directory with the image verifiers.
func (s Settings) ImageVerifiers() string {
	if s.ImageVerifierDir == "" {
		return DefaultImageVerifiers
	}
	return s.ImageVerifierDir
}

// DefaultImageVerifiers is the default of imageVerifierDir.
const DefaultImageVerifiers = "/etc/podrun/image-verifier.d"

// ImagePolicies are the values of imagePolicy.
var ImagePolicies = []string{ImagePolicyAny, ImagePolicyVerified}

// Colors are the values of color.
var Colors = []string{"auto", "always", "never"}

// The values of runtime. Any other value is a socket.
const (
	// podrun uses the recorded runtime. If none is recorded, it uses one that it finds on the host.
	RuntimeAuto = "auto"
	// podrun uses the runtime in its own binary.
	RuntimeEmbedded = "embedded"
)

// CheckRuntime rejects an invalid value of runtime. "" means auto.
func CheckRuntime(v string) error {
	if v == "" || v == RuntimeAuto || v == RuntimeEmbedded || strings.HasPrefix(v, "unix:///") || strings.HasPrefix(v, "/") {
		return nil
	}
	return fmt.Errorf("%q is not auto, embedded or a socket (unix:///path/to.sock)", v)
}

// podrun can store the Secrets of pods in these places.
const (
	// The Secrets are in checkpoints, which only root can read.
	SecretsOnDisk = "disk"
	// The Secrets exist until the host is rebooted.
	SecretsInMemory = "memory"
)

// SecretsPlaces are the values of secrets.
var SecretsPlaces = []string{SecretsOnDisk, SecretsInMemory}

// How podrun handles the number of pods of a workload.
const (
	// podrun runs one pod for each workload without the annotation podrun.dev/replicas: honour.
	ReplicasIgnore = identity.ReplicasIgnore
	// podrun runs as many pods as the workload requests.
	ReplicasHonour = identity.ReplicasHonour
)

// ReplicasModes are the values of replicas.
var ReplicasModes = []string{ReplicasIgnore, ReplicasHonour}

// The app containers of a pod can start in these orders.
const (
	// Containers start one after the other, in the order of the list. podrun may create a container while
	// the one before it starts.
	StartInOrder = "kubelet"
	// The order is the same, but podrun creates each container after the one before it has started.
	StartStrict = "strict"
	// Containers start concurrently, unless postStart hooks require an order.
	StartParallel = "parallel"
)

// StartOrders are the values of startOrder.
var StartOrders = []string{StartInOrder, StartStrict, StartParallel}

// PodSecurityLevels are the values of podSecurity.
var PodSecurityLevels = []string{"privileged", "baseline", "restricted"}

func (f *file) checkSources(dirs []string) {
	if len(dirs) > maxSources {
		f.invalid("sources", fmt.Sprintf("%d directories, more than the limit of %d", len(dirs), maxSources), "")
		return
	}
	for i, dir := range dirs {
		at := fmt.Sprintf("sources[%d]", i)
		if strings.HasPrefix(dir, "https://") || strings.HasPrefix(dir, "oci://") {
			if u, err := url.Parse(dir); err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(dir) >= maxPath {
				f.invalid(at, "not a URL such as https://host/path or oci://host/repository:tag, without credentials", "pass credentials with --source-header-file")
			}
		} else {
			f.checkPath(at, dir)
		}
		if slices.Contains(dirs[:i], dir) {
			f.invalid(at, fmt.Sprintf("%q is specified twice", dir), "")
		}
	}
}

// checkNode checks the name, the addresses and the labels of the node. The kubelet accepts at
// most one node address per IP family (KEP-563).
func (f *file) checkNode(pc *PodrunConfiguration) {
	if n := deref(pc.HostnameOverride, ""); n != "" && len(validation.IsDNS1123Subdomain(n)) > 0 {
		f.invalid("hostnameOverride", fmt.Sprintf("%q is not a valid name of a node", n), "a lower-case DNS name")
	}
	families := map[bool]int{}
	for i, text := range pc.NodeIP {
		at := fmt.Sprintf("nodeIP[%d]", i)
		ip := net.ParseIP(text)
		if ip == nil {
			f.invalid(at, fmt.Sprintf("%q is not an IP address", text), "")
			continue
		}
		four := ip.To4() != nil
		if families[four]++; families[four] > 1 {
			f.invalid(at, fmt.Sprintf("%s is the second address of its family", text), "at most one IPv4 and one IPv6 address")
		}
	}
	if f.tooMany("nodeLabels", len(pc.NodeLabels)) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(pc.NodeLabels)) {
		at := fmt.Sprintf("nodeLabels[%s]", key)
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			f.invalid(at, "not a valid label key: "+wrong[0], "")
		}
		if wrong := validation.IsValidLabelValue(pc.NodeLabels[key]); len(wrong) > 0 {
			f.invalid(at, "not a valid label value: "+wrong[0], "")
		}
	}
}

func (f *file) checkClaims(claims map[string]string) {
	if f.tooMany("persistentVolumeClaims", len(claims)) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		at := fmt.Sprintf("persistentVolumeClaims[%s]", name)
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			f.invalid(at, "not a valid name of a claim: "+wrong[0], "")
		}
		f.checkPath(at, claims[name])
	}
}

func (f *file) checkDevices(devices map[string][]string) {
	if f.tooMany("devices", len(devices)) {
		return
	}
	var seen []string
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		for i, id := range devices[name] {
			at := fmt.Sprintf("devices[%s][%d]", name, i)
			if _, err := ParseDevices([]string{name + "=" + id}); err != nil {
				f.invalid(at, err.Error(), "")
			} else if slices.Contains(seen, id) {
				f.invalid(at, fmt.Sprintf("%q is specified twice", id), "")
			}
			seen = append(seen, id)
			if f.tooMany("devices", len(seen)) {
				return
			}
		}
	}
}

func (f *file) tooMany(field string, n int) bool {
	if n > maxEntries {
		f.invalid(field, fmt.Sprintf("%d entries, more than the limit of %d", n, maxEntries), "")
	}
	return n > maxEntries
}

// mergePodrun overrides base with a valid PodrunConfiguration.
func mergePodrun(s Settings, pc *PodrunConfiguration) Settings {
	for into, value := range map[*string]*string{
		&s.Color: pc.Color, &s.Profile: pc.Profile, &s.UserNamespaces: pc.UserNamespaces, &s.Replicas: pc.Replicas, &s.RootDir: pc.RootDir, &s.Secrets: pc.Secrets, &s.ContainerLogsDir: pc.ContainerLogsDir, &s.Runtime: pc.Runtime, &s.HostnameOverride: pc.HostnameOverride,
		&s.RegistryAuth: pc.RegistryAuth, &s.ProviderConfig: pc.ProviderConfig, &s.ProviderBinDir: pc.ProviderBinDir,
		&s.ClaimDir: pc.PersistentVolumeClaimDir, &s.StartOrder: pc.StartOrder, &s.ImagePolicy: pc.ImagePolicy, &s.ImageVerifierDir: pc.ImageVerifiers, &s.PodSecurity: pc.PodSecurity, &s.Namespace: pc.Namespace,
	} {
		setIfGiven(into, value)
	}
	for into, value := range map[*bool]*bool{
		&s.AllowPrivileged: pc.AllowPrivileged, &s.RequireLimits: pc.RequireLimits, &s.AllowMetadata: pc.AllowMetadata, &s.Preempt: pc.Preempt, &s.AllowKubelet: pc.AllowKubelet, &s.RuntimeRecover: pc.RuntimeRecover, &s.StrictSources: pc.StrictSources, &s.ReadOnlyAPI: pc.ReadOnlyAPI, &s.Verbose: pc.Verbose,
	} {
		setIfGiven(into, value)
	}
	list(&s.Sources, pc.Sources)
	list(&s.NodeIP, pc.NodeIP)
	if pc.NodeLabels != nil {
		s.NodeLabels = pc.NodeLabels
	}
	if pc.PersistentVolumeClaims != nil {
		s.Claims = pc.PersistentVolumeClaims
	}
	if pc.Devices != nil {
		s.Devices = pc.Devices
	}
	if pc.RetryPull != nil {
		s.RetryPullAlways = *pc.RetryPull == "always"
	}
	if pc.PullTimeout != nil {
		s.PullTimeout = &pc.PullTimeout.Duration
	}
	if pc.PullStallTimeout != nil {
		s.PullStall = pc.PullStallTimeout.Duration
	}
	if pc.ProgressDeadline != nil {
		s.ProgressDeadline = pc.ProgressDeadline.Duration
	}
	return s
}
