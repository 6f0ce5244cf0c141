package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/manifest/input"
)

// TestServicesOfTheAPI checks that podrun refuses a Service that an API server refuses, and no other: the
// API's storage fills in fields before it validates (beginCreate in registry/core/service/storage).
func TestServicesOfTheAPI(t *testing.T) {
	const invalid = "f:4: Service default/web: spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple "
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"a load balancer with local endpoints": {"type: LoadBalancer, externalTrafficPolicy: Local", nil},
		"with a port":                          {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000", nil},
		"with a port that is no number of a port": {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 70000", []string{
			"f:4: Service default/web: spec.healthCheckNodePort: Invalid value: 70000: must be between 1 and 65535, inclusive"}},
		"a port without need of it": {"type: LoadBalancer, healthCheckNodePort: 31000", []string{
			"f:4: Service default/web: spec.healthCheckNodePort: Invalid value: 31000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"}},
		"node port with local endpoints":           {"type: NodePort, externalTrafficPolicy: Local", nil},
		"an address, without the list":             {"clusterIP: 10.96.0.7", nil},
		"a list of addresses, without the first":   {"clusterIPs: [10.96.0.7]", []string{"f:4: Service default/web: spec.clusterIPs: Invalid value: [\"10.96.0.7\"]: must be empty when `clusterIP` is not specified"}},
		"two families, without a policy":           {"ipFamilies: [IPv4, IPv6]", []string{invalid + "IP families are specified"}},
		"two families and a single one":            {"ipFamilyPolicy: SingleStack, ipFamilies: [IPv4, IPv6]", []string{invalid + "IP families are specified"}},
		"two addresses, without a policy":          {"clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7, 'fd00::7']", []string{invalid + "cluster IPs are specified"}},
		"two families, headless":                   {"clusterIP: None, selector: {app: web}, ipFamilies: [IPv4, IPv6]", []string{invalid + "IP families are specified"}},
		"two families, headless, without selector": {"clusterIP: None, ipFamilies: [IPv4, IPv6]", nil},
		"two families and a policy":                {"ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4, IPv6]", nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}], " + tc.spec + "}\n"
			_, problems := Load([]input.Source{{Name: "f", Data: []byte(text)}}, Options{Services: true})
			var got []string
			for _, p := range problems.Errors() {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
