package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProvision(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for name, c := range map[string]struct {
		namespace, name string
		claim           *corev1.PersistentVolumeClaim
		want, wrong     string
	}{
		"a claim of the input":         {namespace: "shop", name: "data", claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}, want: "/claims/shop_data"},
		"one that is not in the input": {namespace: "a-b", name: "c.d-0", want: "/claims/a-b_c.d-0"},
		"a path":                       {namespace: "shop", name: "../../etc", wrong: "not a valid name"},
		"a name with the separator":    {namespace: "shop", name: "a_b", wrong: "not a valid name"},
		"a hidden file":                {namespace: "shop", name: ".new", wrong: "not a valid name"},
		"nothing":                      {namespace: "shop", name: "", wrong: "not a valid name"},
		"a namespace that is a path":   {namespace: "..", name: "data", wrong: "not a valid name"},
		"the longest file name":        {namespace: "shop", name: strings.Repeat("a", 250), want: "/claims/shop_" + strings.Repeat("a", 250)},
		"a longer one":                 {namespace: "shop", name: strings.Repeat("a", 251), wrong: "256 bytes, more than the limit of 255"},
		"a block device":               {namespace: "shop", name: "raw", claim: &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &block}}, wrong: "requires a block device"},
	} {
		t.Run(name, func(t *testing.T) {
			claim, pv, err := Provision("/claims", c.namespace, c.name, c.claim)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := ProvisionedPath(pv); got != c.want || claim.Spec.VolumeName != pv.Name {
				t.Errorf("%q, bound to %q of %q, want %q", got, claim.Spec.VolumeName, pv.Name, c.want)
			}
			if c.claim != nil && c.claim.Spec.VolumeName != "" {
				t.Error("the claim of the input was changed")
			}
			if ns, of, ok := ProvisionedFor(pv.Name); !ok || ns != c.namespace || of != c.name {
				t.Errorf("%s is parsed as the volume of %s/%s, %v", pv.Name, ns, of, ok)
			}
		})
	}
}

// TestProvisionedPath covers the PersistentVolumes of an input, whose names contain no '_'. podrun
// must not create or delete their directories.
func TestProvisionedPath(t *testing.T) {
	local := func(name, path string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}}}
	}
	for _, pv := range []*corev1.PersistentVolume{
		local("pvc-shop-data", "/claims/pvc-shop-data"), local("shop_data", "/etc"), local("_data", "/claims/_data"), local("shop_", "/claims/shop_"),
		{ObjectMeta: metav1.ObjectMeta{Name: "shop_data"}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/claims/shop_data"}}}},
	} {
		if path := ProvisionedPath(pv); path != "" {
			t.Errorf("%s: %s", pv.Name, path)
		}
	}
}
