package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// ann is an ordinary user who has 65536 subordinate IDs, and no cgroups.
func ann(s *scene) {
	s.facts.User = &host.User{Name: "ann", UIDs: 65537, GIDs: 65537, FirstPort: 1024}
	s.facts.Cgroup = host.Cgroup{Unavailable: "this host has no cgroups for ann"}
}

func limit(name corev1.ResourceName, value string) func(*scene) {
	return func(s *scene) {
		list := corev1.ResourceList{name: resource.MustParse(value)}
		s.pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
		if s.facts.Capacity[name] == (resource.Quantity{}) {
			s.facts.Capacity[name] = resource.MustParse(value)
		}
	}
}

func security(set func(*corev1.PodSecurityContext, *corev1.SecurityContext)) func(*scene) {
	return func(s *scene) {
		sc, c := &corev1.PodSecurityContext{}, &corev1.SecurityContext{}
		set(sc, c)
		s.pod.Spec.SecurityContext, s.pod.Spec.Containers[0].SecurityContext = sc, c
	}
}

func number(n int64) *int64 { return &n }

// TestUser checks what an ordinary user's pods may not request. Each refusal names the reason and a fix.
func TestUser(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []func(*scene)
		want []string // parts of the messages, in order
	}{
		{"plain", nil, nil},
		{"own user namespace", []func(*scene){advertised, ownUsers}, []string{"spec.hostUsers: user ann cannot give a pod its own user namespace"}},
		{"highest IDs", []func(*scene){security(func(p *corev1.PodSecurityContext, c *corev1.SecurityContext) {
			p.RunAsUser, p.FSGroup, p.SupplementalGroups, c.RunAsGroup = number(65536), number(65536), []int64{65536}, number(65536)
		})}, nil},
		{"IDs outside of the range", []func(*scene){security(func(p *corev1.PodSecurityContext, c *corev1.SecurityContext) {
			p.RunAsUser, p.FSGroup, p.SupplementalGroups, c.RunAsGroup = number(65537), number(70000), []int64{1, 80000}, number(90000)
		})}, []string{
			"spec.securityContext.runAsUser: user ID 65537 does not exist in the user namespace of user ann, which has the IDs 0 to 65536",
			"spec.securityContext.fsGroup: group ID 70000", "spec.securityContext.supplementalGroups[1]: group ID 80000",
			"spec.containers[0].securityContext.runAsGroup: group ID 90000"}},
		{"IDs without subordinate ones", []func(*scene){
			func(s *scene) { s.facts.User.UIDs, s.facts.User.GIDs = 1, 1 },
			security(func(p *corev1.PodSecurityContext, c *corev1.SecurityContext) {
				p.RunAsUser, c.RunAsUser = number(0), number(1)
			}),
		}, []string{"spec.containers[0].securityContext.runAsUser: user ID 1 does not exist: user ann has no subordinate IDs"}},
		{"IDs before podrun-rootless runs", []func(*scene){
			func(s *scene) { s.facts.User.UIDs, s.facts.User.GIDs = 0, 0 },
			security(func(p *corev1.PodSecurityContext, _ *corev1.SecurityContext) { p.RunAsUser = number(1e6) }),
		}, nil},
		{"port", []func(*scene){hostPort("TCP", "", 1024)}, nil},
		{"privileged port", []func(*scene){hostPort("TCP", "", 80)}, []string{"spec.containers[0].ports[0].hostPort: user ann cannot listen on port 80 of the host"}},
		{"privileged port that root has permitted", []func(*scene){hostPort("TCP", "", 80), func(s *scene) { s.facts.User.FirstPort = 80 }}, nil},
		{"SCTP", []func(*scene){hostPort("SCTP", "", 8080), sctp(true)}, []string{"host ports of an ordinary user do not support SCTP"}},
		{"huge pages", []func(*scene){limit("hugepages-2Mi", "4Mi")}, []string{"spec.containers[0].resources.limits[hugepages-2Mi]: user ann cannot use huge pages"}},
		{"hugetlbfs", []func(*scene){func(s *scene) {
			s.pod.Spec.Volumes = []corev1.Volume{{Name: "h", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}}}
		}}, []string{"spec.volumes[0].emptyDir.medium: user ann cannot mount hugetlbfs"}},
		{"device", []func(*scene){limit("example.com/gpu", "1"), func(s *scene) { s.facts.Devices = map[string][]string{"example.com/gpu": {"example.com/gpu=0"}} }},
			[]string{"spec.containers[0].resources.limits[example.com/gpu]: user ann cannot give devices of the host to containers"}},
		{"limits that must have an effect", []func(*scene){limit("memory", "1Gi"), func(s *scene) { s.settings.RequireLimits = true }},
			[]string{"the limits of memory have no effect: this host has no cgroups for ann"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			problems := append([]func(*scene){ann}, c.set...)
			got := check(problems...).Errors()
			if len(got) != len(c.want) {
				t.Fatalf("%d problems, want %d: %v", len(got), len(c.want), got)
			}
			for i, p := range got {
				if text := strings.TrimPrefix(p.Field+": "+p.Message, ": "); !strings.Contains(text, c.want[i]) || p.Hint == "" {
					t.Errorf("problem %q with the hint %q, want %q and a hint", text, p.Hint, c.want[i])
				}
			}
		})
	}
}

// TestUserLimits checks that limits without effect are a warning, and that requests alone are none.
func TestUserLimits(t *testing.T) {
	warnings := check(ann, limit("cpu", "1"))
	if len(warnings) != 1 || !warnings[0].Warning || !strings.HasPrefix(warnings[0].Message, "the limits of cpu have no effect") {
		t.Errorf("the problems are %v", warnings)
	}
	delegated := func(s *scene) {
		s.facts.Cgroup.Unavailable, s.facts.Cgroup.Controllers = "", []string{"memory", "pids"}
	}
	if got := check(ann, delegated, limit("memory", "1Gi")); len(got) > 0 {
		t.Errorf("a delegated controller: %v", got)
	}
	if got := check(ann, delegated, limit("cpu", "1")); len(got) != 1 || !got[0].Warning || !strings.Contains(got[0].Message, "does not delegate") {
		t.Errorf("a controller that is not delegated: %v", got)
	}
	if got := check(ann, requests("1", "1Gi")); len(got) > 0 {
		t.Errorf("requests: %v", got)
	}
	if got := check(limit("cpu", "1")); len(got) > 0 {
		t.Errorf("root: %v", got)
	}
}

// check returns the problems of a pod on a large host.
func check(set ...func(*scene)) problem.List {
	s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
	for _, f := range set {
		f(s)
	}
	return Check(Pod{Pod: s.pod, Handler: s.handler}, s.facts, s.settings, s.options)
}
