package prepare

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	both := []netip.Prefix{netip.MustParsePrefix("10.64.3.0/24"), netip.MustParsePrefix("fd00:64::/64")}
	for text, problem := range map[string]string{
		"10.64.3.7":                "",
		"10.64.3.254":              "",
		"fd00:64::7, 10.64.3.7":    "",
		"":                         `"" is not an IP address`,
		"10.64.3.7,":               `"" is not an IP address`,
		"10.64.3.7/24":             "is not an IP address",
		"fd00:64::7%eth0":          "is not an IP address",
		"::ffff:10.64.3.7":         "is not an IP address",
		"10.64.4.7":                "10.64.4.7 is not in the pod subnets [10.64.3.0/24 fd00:64::/64]",
		"10.64.3.0":                "is the address of the pod subnet",
		"10.64.3.1":                "is the gateway",
		"fd00:64::1":               "is the gateway",
		"10.64.3.255":              "is the broadcast address",
		"10.64.3.7,10.64.3.8":      "10.64.3.7 and 10.64.3.8 are in the pod subnet 10.64.3.0/24",
		"10.64.3.7,fd00:64::7,fd0": "is not an IP address",
	} {
		err := checkAddress(text, false, both)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v: want %q", text, err, problem)
		}
	}
	if err := checkAddress("10.64.3.7", true, both); err == nil || !strings.Contains(err.Error(), "hostNetwork") {
		t.Errorf("hostNetwork: %v", err)
	}
	if err := checkAddress("10.64.3.7", false, nil); err == nil || !strings.Contains(err.Error(), "--runtime=embedded") {
		t.Errorf("another runtime: %v", err)
	}
	if err := checkAddress("10.64.3.7", false, both[1:]); err == nil {
		t.Error("an IPv4 address in an IPv6 network")
	}
}

// TestRefusedAnnotations checks that the plan of a pod has the problems of its annotations.
func TestRefusedAnnotations(t *testing.T) {
	annotated := func(annotation string) string {
		return strings.Replace(podText("web", "Always", usernsPlain), "{name: web}", "{name: web, annotations: {"+annotation+"}}", 1)
	}
	for name, tc := range map[string]struct {
		text, field, message string
	}{
		"an address on a runtime that ignores it": {annotated("podrun.dev/ip: 10.64.3.7"), "metadata.annotations[podrun.dev/ip]", "only the embedded runtime"},
		"an unknown start order":                  {annotated("podrun.dev/start-order: sideways"), "metadata.annotations[podrun.dev/start-order]", "kubelet, strict or parallel"},
	} {
		in := Input{Objects: load(t, tc.text), HostState: HostState{Facts: testFacts}, Settings: testSettings()}
		_, problems := All(in)
		got := ""
		for _, p := range problems.Errors() {
			if p.Field == tc.field {
				got = p.Message + " " + p.Hint
			}
		}
		if !strings.Contains(got, tc.message) {
			t.Errorf("%s: %q, want %q; %v", name, got, tc.message, problems)
		}
	}
}
