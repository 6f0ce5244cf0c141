package nodeconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// TestProfile checks that the settings of a profile are defaults. Both documents of the file
// must override them, in any order.
func TestProfile(t *testing.T) {
	const profile = beginPodrun + "profile: hardened\n"
	for name, tc := range map[string]struct {
		file string
		want func(*Settings)
	}{
		"alone":                               {profile, func(*Settings) {}},
		"overridden in its document":          {profile + "podSecurity: restricted\nuserNamespaces: pod\nreadOnlyAPI: false\n", func(s *Settings) { s.PodSecurity, s.UserNamespaces, s.ReadOnlyAPI = "restricted", "pod", false }},
		"overridden by the document after it": {profile + "---\n" + begin + "seccompDefault: false\n", func(s *Settings) { s.SeccompDefault = false }},
		"limits of processes": {profile + "---\n" + begin + "podPidsLimit: -1\nevictionHard: {pid.available: 5%, memory.available: 1Gi}\n", func(s *Settings) {
			s.PodPidsLimit, s.EvictionHard = -1, map[string]string{"pid.available": "5%", "memory.available": "1Gi"}
		}},
		"merged thresholds": {begin + "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}\n---\n" + profile, func(s *Settings) {
			s.EvictionHard["memory.available"] = "1Gi"
		}},
		"overridden by the document before it": {begin + "seccompDefault: false\nimagePullCredentialsVerificationPolicy: NeverVerify\n---\n" + profile, func(s *Settings) {
			s.SeccompDefault, s.PullVerification = false, kubelet.NeverVerify
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := Parse([]byte(tc.file), Default())
			if len(problems) != 0 {
				t.Fatalf("problems: %s", problems)
			}
			want := Default()
			want.Profile, want.SeccompDefault, want.PodSecurity, want.UserNamespaces = "hardened", true, "baseline", "prefer"
			want.PullVerification, want.ReadOnlyAPI = kubelet.AlwaysVerify, true
			want.PodPidsLimit, want.EvictionHard["pid.available"] = 4096, "10%"
			tc.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if s, problems := Parse([]byte(beginPodrun+"rootDir: /r\n"), Default()); len(problems) > 0 || s.SeccompDefault || s.DescribeProfile() != "" {
		t.Errorf("without a profile: %+v, %s", s, problems)
	}
	for _, wrong := range []string{"Hardened", "''", "none"} {
		if _, problems := Parse([]byte(beginPodrun+"profile: "+wrong+"\n"), Default()); len(problems) != 1 || problems[0].Line != 3 || !strings.Contains(problems[0].String(), "unknown profile") || problems[0].Hint != "hardened" {
			t.Errorf("profile %s: %s", wrong, problems)
		}
	}
}

func TestDescribeProfile(t *testing.T) {
	s, _ := Parse([]byte(beginPodrun+"profile: hardened\npodSecurity: privileged\n"), Default())
	// A flag may have changed the setting after Parse.
	s.UserNamespaces = ""
	delete(s.EvictionHard, "pid.available")
	const want = "profile hardened: seccompDefault=true, podSecurity=privileged (instead of baseline), userNamespaces=pod (instead of prefer), " +
		"imagePullCredentialsVerificationPolicy=AlwaysVerify, readOnlyAPI=true, podPidsLimit=4096, evictionHard[pid.available]=none (instead of 10%)"
	if got := s.DescribeProfile(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
