package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host/nodeconfig"
)

// TestHostPaths covers volumes that expose podrun's or the runtime's state to a container.
// podrun must warn about them. Under the Pod Security Standards, podrun must refuse them, even
// if they belong to a claim.
func TestHostPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/":                                     "contains /var/lib/podrun of podrun",
		"/var/lib":                              "contains /var/lib/podrun of podrun",
		"/var/lib/podrun":                       "belongs to podrun",
		"/var/lib/podrun/":                      "belongs to podrun",
		"/var/lib/podrun/locks":                 "is in /var/lib/podrun of podrun",
		"/var/lib/x/../podrun/pods":             "is in /var/lib/podrun of podrun",
		"/srv/link":                             "is in /var/lib/podrun of podrun",
		"/run":                                  "contains /run/podrun of podrun",
		"/run/podrun/serve":                     "is in /run/podrun of podrun",
		"/etc":                                  "contains /etc/podrun/manifests of podrun",
		"/run/containerd/containerd.sock":       "belongs to the container runtime",
		"/var/run/containerd/containerd.sock":   "belongs to the container runtime",
		"/run/containerd/s":                     "is in /run/containerd of the container runtime",
		"/var/lib/containerd/x":                 "is in /var/lib/containerd of the container runtime",
		"/run/podrun-runtime/1/containerd.sock": "is in /run/podrun-runtime of the container runtime",
		"/images":                               "contains /images/overlay of the container runtime",

		"/var/lib/podrun-data":            "",
		"/run/podrun-api/1/readonly.sock": "",
		"/var/log/pods":                   "",
		"/var/lib/kubelet":                "",
		"/etc/ssl":                        "",
	} {
		for _, level := range []string{"", "baseline", "restricted"} {
			s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
			s.facts.Runtime.Endpoint, s.facts.ImageFS.Path = "unix:///run/containerd/containerd.sock", "/images/overlay"
			s.facts.RealPaths = map[string]string{"/srv/link": "/var/lib/podrun/pods", "/var/run/containerd/containerd.sock": "/run/containerd/containerd.sock"}
			s.settings.PodSecurity = level
			s.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			const field = "spec.volumes[0].persistentVolumeClaim.claimName"
			var got []string
			for _, p := range CheckAll([]Pod{{Pod: s.pod, HostPaths: []HostPath{{Field: field, Path: path}}}}, s.facts, s.settings, s.options)[0].Problems {
				if p.Reason != "HostPathOfPodrun" {
					continue
				}
				got = append(got, p.Message)
				if p.Field != field || p.Warning != (level == "") {
					t.Errorf("%s under %q: %+v", path, level, p)
				}
			}
			text := strings.Join(got, "; ")
			if want == "" && text != "" || want != "" && (len(got) != 1 || !strings.Contains(text, want)) {
				t.Errorf("%s under %q: %q, want %q", path, level, text, want)
			}
		}
	}
}

// TestUnresolvedHostPath checks that a path with symlinks that podrun cannot resolve is refused under a
// pod security level.
func TestUnresolvedHostPath(t *testing.T) {
	for level, want := range map[string]bool{"": false, "baseline": true} {
		s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
		s.settings.PodSecurity, s.facts.UnresolvedPaths = level, map[string]string{"/srv/loop": "too many links"}
		var got []string
		for _, p := range CheckAll([]Pod{{Pod: s.pod, HostPaths: []HostPath{{Field: "a", Path: "/srv/loop/"}}}}, s.facts, s.settings, s.options)[0].Problems.Errors() {
			got = append(got, p.Message)
		}
		if strings.Contains(strings.Join(got, "; "), "/srv/loop/ cannot be resolved: too many links") != want {
			t.Errorf("under %q: %q", level, got)
		}
	}
}

// TestManifestVolumes covers PersistentVolumes of the host that a manifest defines, together with the
// pod. The Pod Security Standards allow claims.
func TestManifestVolumes(t *testing.T) {
	for level, want := range map[string]bool{"": false, "privileged": false, "baseline": true, "restricted": true} {
		s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
		s.settings.PodSecurity = level
		paths := []HostPath{{Field: "a", Path: "/etc", Volume: "pv", InManifest: true}, {Field: "b", Path: "/srv", Volume: "pvc_default_b"}, {Field: "c", Path: "/srv"}}
		var got []string
		for _, p := range CheckAll([]Pod{{Pod: s.pod, HostPaths: paths}}, s.facts, s.settings, s.options)[0].Problems {
			if p.Reason == "HostPathOfManifest" && !p.Warning {
				got = append(got, p.Field+": "+p.Message)
			}
		}
		if text := strings.Join(got, "; "); (text == "a: PersistentVolume pv is /etc of this host, but a manifest defines it: --pod-security="+level+" allows volumes of the host only from the settings") != want || !want && text != "" {
			t.Errorf("under %q: %q", level, text)
		}
		if events := Forbidden(paths, s.settings); (len(events) == 1) != want || want && !strings.Contains(events[0].Message, got[0]) {
			t.Errorf("under %q: events %v", level, events)
		}
	}
}
