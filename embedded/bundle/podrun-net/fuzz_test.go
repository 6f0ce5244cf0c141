package main

import (
	"strings"
	"testing"
)

// FuzzConfig passes a configuration and a result with arbitrary content, as a runtime might. If
// a configuration is accepted, it must produce valid rules: names that nft can parse, valid
// addresses and valid ports.
func FuzzConfig(f *testing.F) {
	const good = `{"cniVersion":"1.0.0","name":"n","bridge":"br0","runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"sctp","hostIP":"::ffff:192.0.2.1"}]},
		"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/ns"}],"ips":[{"address":"10.0.0.2/24","interface":1},{"address":"fd00::2/64","interface":1}]}}`
	for _, seed := range []string{
		good, strings.ReplaceAll(good, "1.0.0", "0.2.0"), strings.ReplaceAll(good, "1.0.0", "0.4.0"), strings.ReplaceAll(good, "10.0.0.2/24", "0.0.0.0/0"), strings.ReplaceAll(good, `"interface":1`, `"interface":-1`),
		strings.ReplaceAll(good, "br0", "../../x"), `{"bridge":"b","prevResult":null}`, `{"bridge":"b","prevResult":{"ips":[null]}}`, `{"bridge":"b","validAttachments":[{}]}`, "{}", "",
	} {
		f.Add([]byte(seed), "0123456789abcdef", "eth0")
	}
	f.Fuzz(func(t *testing.T, stdin []byte, sandbox, ifName string) {
		c, err := parse(stdin)
		if err != nil {
			return
		}
		a, err := c.attachment(sandbox, ifName)
		if err != nil {
			return
		}
		if !bridges.MatchString(a.bridge) || len(a.comment) > maxComment || a.v4.IsValid() && !a.v4.Addr().Is4() || a.v6.IsValid() && !a.v6.Addr().Is6() {
			t.Errorf("%+v", a)
		}
		for _, p := range a.ports {
			if p.host == 0 || p.container == 0 || p.protocol == 0 {
				t.Errorf("%+v", p)
			}
		}
		if len(a.ports) < 100 {
			plan(a)
		}
	})
}

// FuzzParseRule parses messages from the kernel and the entries of iptables-legacy. A message
// contains a rule, and any program may have written the rule's user data.
func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x00\x00\x00", "\x02\x00\x00\x00\x0c\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x07", "\x02\x00\x00\x00\x08\x00\x08\x00\x00\x02ab", "\x02\x00\x00\x00\x00\x00\x08\x00",
		"\x02\x00\x00\x00\xff\xff\x08\x00", "\x02\x00\x00\x00\x05\x00\x08\x80\x00",
	} {
		f.Add([]byte(seed), uint32(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint32) {
		if r, err := parseRule(data); err == nil && (len(r.comment) > len(data) || strings.Contains(r.comment, "\x00")) {
			t.Errorf("%+v", r)
		}
		policyDrops(data, at)
	})
}
