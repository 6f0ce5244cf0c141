package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClusterObjects checks that Load skips kinds that configure a cluster around its pods,
// with one warning, whatever version of the group the file uses.
func TestClusterObjects(t *testing.T) {
	text := head
	for _, o := range []string{
		"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding",
		"admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding",
		"networking.k8s.io/v1 IngressClass", "storage.k8s.io/v1 StorageClass", "storage.k8s.io/v1 CSIDriver",
		"apiregistration.k8s.io/v1 APIService", "v1 Endpoints", "discovery.k8s.io/v1 EndpointSlice",
	} {
		apiVersion, kind, _ := strings.Cut(o, " ")
		text += object(apiVersion, kind, "a")
	}
	objects, warnings := load(t, text, Options{})
	want := []string{"podrun skips these objects, which it does not support: APIService (a), CSIDriver (a), EndpointSlice (a), Endpoints (a), IngressClass (a), " +
		"MutatingAdmissionPolicy (a), MutatingAdmissionPolicyBinding (a), MutatingWebhookConfiguration (a), StorageClass (a), " +
		"ValidatingAdmissionPolicy (a), ValidatingAdmissionPolicyBinding (a), ValidatingWebhookConfiguration (a)"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	if len(objects.Pods) != 1 {
		t.Errorf("%d pods, want 1", len(objects.Pods))
	}
}

// TestMisspelledKinds checks that a kind that differs from a known one by a letter or two
// causes a suggestion. The kind of a custom resource must not, and neither must a kind that is
// not similar to a known one.
func TestMisspelledKinds(t *testing.T) {
	for kind, want := range map[string]string{
		"v1 Pdo": "Pod", "v1 pod": "Pod", "v1 Pods": "Pod", "apps/v1 Deploymnet": "Deployment", "v1 Confgmap": "ConfigMap",
		"batch/v1 Cronjobs": "CronJob", "networking.k8s.io/v1 NetworkPolcy": "NetworkPolicy", "v1 Srevice": "Service",
		"v1 Node": "", "v1 Event": "", "v1 Gadget": "", "v1 Route": "", "v1 Pot": "Pod", "example.com/v1 Pdo": "", "example.com/v1 pod": "",
		"v1 Pod": "", "v1 X": "", "storage.k8s.io/v1 VolumeAttachment": "", "resource.k8s.io/v1 ResourceClaim": "",
	} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		if got := misspelled(header{APIVersion: apiVersion, Kind: name}); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
