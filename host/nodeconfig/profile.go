package nodeconfig

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// ProfileHardened restricts pods more than a kubelet would.
const ProfileHardened = "hardened"

// Profiles are the values of profile.
var Profiles = []string{ProfileHardened}

// Values of userNamespaces.
const (
	// Only pods with hostUsers: false get a user namespace.
	UserNamespacesPod = "pod"
	// New pods without hostUsers get one too, if they work in a user namespace.
	UserNamespacesPrefer = "prefer"
)

// UserNamespaceModes are the values of userNamespaces.
var UserNamespaceModes = []string{UserNamespacesPod, UserNamespacesPrefer}

// profileSetting is a setting of the hardened profile.
type profileSetting struct {
	name  string
	value string
	set   func(*Settings)
	get   func(Settings) string
}

// hardened are the settings of ProfileHardened. Each is only a default: the file, the
// environment and flags override it.
var hardened = []profileSetting{
	{"seccompDefault", "true", func(s *Settings) { s.SeccompDefault = true }, func(s Settings) string { return fmt.Sprint(s.SeccompDefault) }},
	{"podSecurity", "baseline", func(s *Settings) { s.PodSecurity = "baseline" }, func(s Settings) string { return s.PodSecurity }},
	{"userNamespaces", UserNamespacesPrefer, func(s *Settings) { s.UserNamespaces = UserNamespacesPrefer }, func(s Settings) string { return cmp.Or(s.UserNamespaces, UserNamespacesPod) }},
	{"imagePullCredentialsVerificationPolicy", string(kubelet.AlwaysVerify), func(s *Settings) { s.PullVerification = kubelet.AlwaysVerify },
		func(s Settings) string { return string(s.PullVerification) }},
	{"readOnlyAPI", "true", func(s *Settings) { s.ReadOnlyAPI = true }, func(s Settings) string { return fmt.Sprint(s.ReadOnlyAPI) }},
	{"podPidsLimit", "4096", func(s *Settings) { s.PodPidsLimit = 4096 }, func(s Settings) string { return fmt.Sprint(s.PodPidsLimit) }},
	// Many pods together can still use all process IDs of the host.
	{"evictionHard[pid.available]", "10%", func(s *Settings) {
		s.EvictionHard = maps.Clone(s.EvictionHard)
		s.EvictionHard["pid.available"] = "10%"
	}, func(s Settings) string { return cmp.Or(s.EvictionHard["pid.available"], "none") }},
}

// withProfile returns s with the settings of its profile.
func withProfile(s Settings, name string) Settings {
	if name == ProfileHardened {
		for _, one := range hardened {
			one.set(&s)
		}
	}
	return s
}

// DescribeProfile lists the effective values of the profile's settings. It also lists which
// values of the profile are overridden. It returns "" if there is no profile.
func (s Settings) DescribeProfile() string {
	if s.Profile != ProfileHardened {
		return ""
	}
	var out []string
	for _, one := range hardened {
		text := one.name + "=" + one.get(s)
		if one.get(s) != one.value {
			text += " (instead of " + one.value + ")"
		}
		out = append(out, text)
	}
	return "profile " + s.Profile + ": " + strings.Join(out, ", ")
}
