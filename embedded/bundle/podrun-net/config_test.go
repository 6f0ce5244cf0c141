package main

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	const result = `"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/ns"}],
		"ips":[{"address":"10.0.0.1/24","interface":0},{"address":"10.0.0.2/24","interface":1},{"address":"fd00::2/64","interface":1},{"address":"10.0.0.3/24","interface":1}]}`
	ports := func(one string) string {
		return `{"cniVersion":"1.0.0","name":"n","bridge":"br0","runtimeConfig":{"portMappings":[` + one + `]},` + result + `}`
	}
	for name, c := range map[string]struct{ stdin, problem string }{
		"no JSON":           {`{`, "network configuration"},
		"no bridge":         {`{"cniVersion":"1.0.0","name":"n",` + result + `}`, `network n: bridge "" is not a valid bridge name`},
		"a long bridge":     {`{"cniVersion":"1.0.0","name":"n","bridge":"abcdefghijklmnop",` + result + `}`, "is not a valid bridge name"},
		"a path":            {`{"cniVersion":"1.0.0","name":"n","bridge":"../../a",` + result + `}`, "is not a valid bridge name"},
		"first in the list": {`{"cniVersion":"1.0.0","name":"n","bridge":"br0"}`, "set ipam, or list podrun-net after the bridge plugin"},
		"a bad result":      {`{"cniVersion":"1.0.0","name":"n","bridge":"br0","prevResult":{"cniVersion":"1.0.0","ips":[{"address":"x"}]}}`, "prevResult"},
		"good":              {ports(`{"hostPort":80,"containerPort":8080,"protocol":"sctp","hostIP":"::ffff:192.0.2.1"}`), ""},
		"no host port":      {ports(`{"containerPort":80}`), "host port 0 is not between 1 and 65535"},
		"a high host port":  {ports(`{"hostPort":65536,"containerPort":80}`), "host port 65536 is not"},
		"no container port": {ports(`{"hostPort":80}`), "host port 80: container port 0 is not"},
		"another protocol":  {ports(`{"hostPort":80,"containerPort":80,"protocol":"icmp"}`), `protocol "icmp" must be`},
		"a host name":       {ports(`{"hostPort":80,"containerPort":80,"hostIP":"localhost"}`), `hostIP "localhost" is not an IP address`},
		"a zone":            {ports(`{"hostPort":80,"containerPort":80,"hostIP":"fe80::1%eth0"}`), "is not an IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			var a attachment
			conf, err := parse([]byte(c.stdin))
			if err == nil {
				a, err = conf.attachment("abc", "eth0")
			}
			switch {
			case c.problem == "" && err != nil, c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
				t.Fatalf("%v: want %q", err, c.problem)
			case c.problem != "":
				return
			}
			// The addresses must be the first ones of the sandbox's interface in each family.
			if a.v4.String() != "10.0.0.2/24" || a.v6.String() != "fd00::2/64" || a.comment != "abc/eth0" {
				t.Errorf("%+v", a)
			}
			if p := a.ports[0]; p.hostIP.String() != "192.0.2.1" || p.protocol != 132 {
				t.Errorf("%+v", p)
			}
		})
	}
	conf, err := parse([]byte(ports(`{"hostPort":80,"containerPort":80}`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conf.attachment(strings.Repeat("x", maxComment), "eth0"); err == nil {
		t.Error("an ID that cannot be a comment is accepted")
	}
}

// Any program may have written the user data of a rule.
func TestParseComment(t *testing.T) {
	for data, want := range map[string]string{
		"":               "",
		"\x00":           "",
		"\x00\x03ab\x00": "ab",
		"\x00\x02ab":     "ab",
		// The length exceeds the data.
		"\x00\x09ab":             "",
		"\x01\x01x\x00\x02b\x00": "b",
		"\x01\x00\x00\x00":       "",
	} {
		if got := parseComment([]byte(data)); got != want {
			t.Errorf("%q: %q: want %q", data, got, want)
		}
	}
}

func TestPolicyDrops(t *testing.T) {
	entry := func(verdict string) string {
		return strings.Repeat("\x00", targetOffset) + "\x70\x00\x98\x00" + strings.Repeat("\x00", 112-targetOffset-4+targetLength) + verdict + "\x00\x00\x00\x00"
	}
	for name, c := range map[string]struct {
		entries string
		at      uint32
		want    bool
	}{
		"drop":      {entry("\xff\xff\xff\xff"), 0, true},
		"accept":    {entry("\xfe\xff\xff\xff"), 0, false},
		"second":    {entry("\xfe\xff\xff\xff") + entry("\xff\xff\xff\xff"), 152, true},
		"cut":       {entry("\xff\xff\xff\xff")[:145], 0, false},
		"past":      {entry("\xff\xff\xff\xff"), 1 << 31, false},
		"no target": {"", 0, false},
	} {
		if got := policyDrops([]byte(c.entries), c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// sandbox/cni of podrun, another module, has the same vector.
func TestVethName(t *testing.T) {
	if got := vethName("0123456789ab/eth0"); got != "vethwrpqzk3ymji" || !isVethName(got) {
		t.Errorf("%s", got)
	}
	if isVethName("veth0123abcd") { // of upstream's bridge
		t.Error("another plugin's interface")
	}
}
