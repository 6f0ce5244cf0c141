package nodeconfig

import (
	"strings"
	"testing"
)

func TestParsePodCIDR(t *testing.T) {
	for text, problem := range map[string]string{
		"":                               "",
		"10.1.0.0/24":                    "",
		"10.1.0.0/24, fd00:1::/64":       "",
		"fd00:1::/64,10.1.0.0/24":        "",
		"10.1.0.0":                       "is not a subnet, such as",
		"10.1.0.0/24,":                   "is not a subnet, such as",
		"10.1.0.1/24":                    "use 10.1.0.0/24",
		"10.1.0.0/31":                    "from 8 to 30",
		"0.0.0.0/0":                      "from 8 to 30",
		"fd00::/127":                     "from 8 to 126",
		"10.1.0.0/24,10.2.0.0/24":        "more than one subnet of an address family",
		"10.1.0.0/24,fd00::/64,fd1::/64": "more than one subnet of an address family",
		"127.0.0.0/24":                   "is not a subnet for pods",
		"fe80::/64":                      "is not a subnet for pods",
	} {
		got, err := ParsePodCIDR(text)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, %v: want %q", text, got, err, problem)
		}
	}
}
