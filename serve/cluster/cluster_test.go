package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/serve/source"
)

// TestNode checks the Node object and its lease.
func TestNode(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		n, err := r.client.CoreV1().Nodes().Get(t.Context(), nodeA, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "podrun.dev/host" || n.Labels[corev1.LabelHostname] != nodeA {
			t.Errorf("taints %v, labels %v", n.Spec.Taints, n.Labels)
		}
		if n.Status.Capacity.Cpu().IsZero() || n.Status.Allocatable.Memory().IsZero() || n.Status.Allocatable.Pods().Value() != 110 {
			t.Errorf("capacity %v, allocatable %v", n.Status.Capacity, n.Status.Allocatable)
		}
		if got := readyOf(n.Status); got != corev1.ConditionTrue {
			t.Errorf("Ready is %s", got)
		}
		if got := n.Status.NodeInfo.KubeletVersion; got != "v1.36.3+podrun" || n.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 {
			t.Errorf("version %s, port %d", got, n.Status.DaemonEndpoints.KubeletEndpoint.Port)
		}
		lease, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), nodeA, metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != nodeA {
			t.Fatalf("lease %v: %v", lease, err)
		}
		before := lease.Spec.RenewTime
		r.down = "the container runtime has not answered"
		time.Sleep(15 * time.Second)
		n, err = r.client.CoreV1().Nodes().Get(t.Context(), nodeA, metav1.GetOptions{})
		if err != nil || readyOf(n.Status) != corev1.ConditionFalse {
			t.Errorf("Ready while the runtime is down: %v %v", n.Status.Conditions, err)
		}
		lease, err = r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), nodeA, metav1.GetOptions{})
		if err != nil || !lease.Spec.RenewTime.After(before.Time) {
			t.Errorf("the lease was not renewed: %v", err)
		}
		r.down = ""
	})
}

// TestPod checks the life of a pod: start, status, update and deletion with its grace period.
func TestPod(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.rt.Script("web", critest.Behavior{Forever: true, IgnoreTERM: true})
		r.create(bound("web"))
		p := r.wantPhase("web", corev1.PodRunning)
		if !r.runs("web") || p.Status.ObservedGeneration != 1 || p.Status.PodIP == "" || p.Status.QOSClass != corev1.PodQOSBestEffort {
			t.Errorf("status %+v", p.Status)
		}
		if at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }); at < 0 || p.Status.Conditions[at].Status != corev1.ConditionTrue {
			t.Errorf("conditions %+v", p.Status.Conditions)
		}
		p.Labels, p.Generation = map[string]string{"tier": "front"}, 2
		p.Spec.ActiveDeadlineSeconds = ptr.To[int64](9999)
		if _, err := r.client.CoreV1().Pods("shop").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if p = r.wantPhase("web", corev1.PodRunning); p.Status.ObservedGeneration != 2 || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("after an update: %+v", p.Status)
		}
		r.deleting("web", 20)
		time.Sleep(15 * time.Second)
		if r.pod("web") == nil || !r.runs("web") {
			t.Fatal("the grace period was not observed")
		}
		var last corev1.PodStatus
		r.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			// The clientset is locked.
			o, err := r.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "shop", "web")
			if err == nil {
				last = o.(*corev1.Pod).Status
			}
			return false, nil, nil
		})
		time.Sleep(15 * time.Second)
		if r.pod("web") != nil || r.runs("web") {
			t.Fatalf("the pod was not removed: %v", r.warnings)
		}
		if len(last.ContainerStatuses) != 1 || last.ContainerStatuses[0].State.Terminated == nil || !podutil.IsPodPhaseTerminal(last.Phase) {
			t.Errorf("the status before the removal of the object: %+v", last)
		}
	})
}

// TestFailedPull checks that the status of a pod whose image cannot be pulled says so.
func TestFailedPull(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.rt.AddRemote(critest.Image{Name: "registry.example/missing:1", PullErr: critest.ErrRefused})
		pod := bound("web")
		pod.Spec.Containers[0].Image = "registry.example/missing:1"
		r.create(pod)
		want := func(when, message string) {
			t.Helper()
			p := r.wantPhase("web", corev1.PodPending)
			if len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Waiting == nil {
				t.Fatalf("status %+v", p.Status)
			}
			got := p.Status.ContainerStatuses[0].State.Waiting
			if got.Reason != "ErrImagePull" && got.Reason != "ImagePullBackOff" || !strings.Contains(got.Message, message) {
				t.Errorf("after %s, the container waits because of %s: %s", when, got.Reason, got.Message)
			}
		}
		want("the first attempt", critest.ErrRefused.Error())
		other := errors.New("unexpected status code 503 Service Unavailable")
		r.rt.AddRemote(critest.Image{Name: "registry.example/missing:1", PullErr: other})
		time.Sleep(15 * time.Second)
		want("the second attempt", other.Error())
	})
}

// TestShorterGrace checks that a second deletion with a shorter grace period takes effect.
func TestShorterGrace(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.rt.Script("web", critest.Behavior{Forever: true, IgnoreTERM: true})
		r.create(bound("web"))
		r.deleting("web", 3600)
		time.Sleep(10 * time.Second)
		if !r.runs("web") {
			t.Fatal("the grace period was not observed")
		}
		r.deleting("web", 2)
		time.Sleep(20 * time.Second)
		if r.pod("web") != nil {
			t.Errorf("the pod still exists: %v", r.warnings)
		}
	})
}

// TestDeletedWhileDown checks a pod that was deleted while podrun-node did not run.
func TestDeletedWhileDown(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.create(bound("web"), bound("db"))
		r.end()
		if err := r.client.CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		heal := r.fail(errors.New("connection refused"))
		r.start()
		time.Sleep(time.Minute)
		if !r.runs("web") || !r.runs("db") {
			t.Fatal("a pod was removed while the API server did not answer")
		}
		if n := r.warned("connection refused"); n != 1 {
			t.Errorf("the lost API server was reported %d times: %q", n, r.warnings)
		}
		heal()
		time.Sleep(time.Minute)
		if r.runs("web") || !r.runs("db") {
			t.Errorf("web runs: %v, db runs: %v", r.runs("web"), r.runs("db"))
		}
		if n := r.warned("answers again"); n != 1 {
			t.Errorf("the return of the API server was reported %d times: %q", n, r.warnings)
		}
	})
}

// TestMissingConfigMap checks that a pod waits for an object, and starts when it exists.
func TestMissingConfigMap(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.create(bound("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
		}))
		p := r.wantPhase("web", corev1.PodPending)
		if w := p.Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CreateContainerConfigError" {
			t.Errorf("status %+v", p.Status.ContainerStatuses)
		}
		for _, c := range p.Status.Conditions {
			if c.LastTransitionTime.IsZero() {
				t.Errorf("condition %s has no time", c.Type)
			}
		}
		r.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"A": "1"}})
		r.wantPhase("web", corev1.PodRunning)
	})
}

// TestRefused checks a pod that this host can never run.
func TestRefused(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		csi := func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "disk.example"}}}}
		}
		away := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }
		r.create(bound("csi", csi), bound("away", away))
		if p := r.wantPhase("csi", corev1.PodFailed); p.Status.Reason != "UnsupportedVolume" {
			t.Errorf("reason %s: %s", p.Status.Reason, p.Status.Message)
		}
		if p := r.wantPhase("away", corev1.PodFailed); p.Status.Reason != "NodeAffinity" {
			t.Errorf("reason %s: %s", p.Status.Reason, p.Status.Message)
		}
		list, err := r.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || !slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "csi" && e.Reason == "UnsupportedVolume" && strings.Contains(e.Message, "csi")
		}) {
			t.Errorf("no event about the volume: %v %v", list.Items, err)
		}
	})
}

// TestToken checks that a pod gets a token, and a new one when 80 % of its life have passed.
func TestToken(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		issued := 0
		r.client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
			request := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
			if ref := request.Spec.BoundObjectRef; ref == nil || ref.UID != "uid-of-web" || request.Spec.Audiences[0] != "vault" {
				t.Errorf("request %+v", request.Spec)
			}
			issued++
			request.Status = authenticationv1.TokenRequestStatus{Token: strings.Repeat("t", issued), ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}
			return true, request, nil
		})
		r.create(bound("web", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o644), Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", ExpirationSeconds: ptr.To[int64](3600), Path: "token"}}}}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/token"}}
		}))
		r.wantPhase("web", corev1.PodRunning)
		if issued != 1 {
			t.Fatalf("%d tokens were requested", issued)
		}
		time.Sleep(49 * time.Minute)
		if issued != 2 {
			t.Errorf("%d tokens were requested after 49 minutes of an hour, want 2", issued)
		}
		if p := r.wantPhase("web", corev1.PodRunning); p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Error("the renewal restarted the pod")
		}
		if got := r.secret("uid-of-web"); got != "tt" {
			t.Errorf("the pod has token %q", got)
		}
		r.end()
		r.start()
		if n := r.events("MissingClusterDNS"); n != 1 {
			t.Errorf("%d events MissingClusterDNS after a new token and a restart, want 1", n)
		}
	})
}

// TestServiceVariables checks the environment variables of Services.
func TestServiceVariables(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.9.8.7", Ports: []corev1.ServicePort{{Port: 5432, Protocol: corev1.ProtocolTCP}}}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: "10.9.0.1", Ports: []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}}}})
		r.create(bound("web"), bound("quiet", func(p *corev1.Pod) { p.Spec.EnableServiceLinks = ptr.To(false) }))
		if env := r.env("web"); env["DB_SERVICE_HOST"] != "10.9.8.7" || env["KUBERNETES_SERVICE_PORT"] != "443" {
			t.Errorf("web: %v", env)
		}
		if env := r.env("quiet"); env["DB_SERVICE_HOST"] != "" || env["KUBERNETES_SERVICE_HOST"] != "10.9.0.1" {
			t.Errorf("quiet: %v", env)
		}
	})
}

// TestMirror checks that the cluster shows a pod of a file, with its status, until the file is removed.
func TestMirror(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		const dir = "/etc/podrun/manifests"
		define := func(metadata string) {
			objects, problems := manifest.Load([]input.Source{{Name: "web.yaml", Data: []byte(
				"{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop" + metadata + "}, spec: {containers: [{name: web, image: 'registry.example/app:1'}]}}")}}, manifest.Options{})
			if len(problems.Errors()) > 0 {
				t.Fatal(problems)
			}
			r.file(&source.Snapshot{Dirs: []source.Dir{{Path: dir, State: source.Present, Files: []source.File{{Path: dir + "/web.yaml", State: source.Good, Objects: objects}}}}})
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Second / 3) // the times of the status have fractions, which JSON does not have
		define("")
		p := r.wantPhase("web-"+nodeA, corev1.PodRunning)
		if p.Spec.NodeName != nodeA || p.Annotations[corev1.MirrorPodAnnotationKey] == "" || r.cluster.LocalName("shop", p.Name) != "web" {
			t.Errorf("mirror %+v", p.ObjectMeta)
		}
		if p.UID == "" {
			t.Error("the API server gave the mirror no UID")
		}
		if n := r.patches("web-" + nodeA); n == 0 || n > 10 {
			t.Errorf("podrun patched the status of the mirror %d times in a minute", n)
		}
		define(", labels: {tier: front}, annotations: {note: changed}")
		if p := r.wantPhase("web-"+nodeA, corev1.PodRunning); p.Labels["tier"] != "front" || p.Annotations["note"] != "changed" {
			t.Errorf("after a change of the file's labels and annotations, the mirror is %+v", p.ObjectMeta)
		}
		r.file(&source.Snapshot{Dirs: []source.Dir{{Path: dir, State: source.Present}}})
		time.Sleep(time.Minute)
		if r.pod("web-"+nodeA) != nil || r.runs("web") {
			t.Error("the pod or its mirror still exists")
		}
	})
}
