package cni

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// cachedOwn returns the file that libcni stores for a sandbox of podrun's own runtime.
func cachedOwn(t *testing.T, sandbox, netns string) []byte {
	t.Helper()
	list := `{"cniVersion":"1.0.0","name":"podrun-1","plugins":[{"type":"bridge","bridge":"podrun-1"},{"type":"podrun-net","bridge":"podrun-1","capabilities":{"portMappings":true}}]}`
	data, err := json.Marshal(map[string]any{"kind": "cniCacheV1", "containerId": sandbox, "config": []byte(list), "ifName": "eth0", "networkName": "podrun-1",
		"netns": netns, "capabilityArgs": json.RawMessage(`{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":""}]}`),
		"result": json.RawMessage(`{"cniVersion":"1.0.0","ips":[{"address":"10.64.0.2/24"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseOwn(t *testing.T) {
	a, ok := parseOwn(cachedOwn(t, gone, "/ns"), "podrun-1")
	if !ok || a.comment() != gone+"/eth0" || a.bridge != "podrun-1" || a.netns != "/ns" || string(a.families) != "\x02" {
		t.Fatalf("%+v %v", a, ok)
	}
	want := `{"bridge":"podrun-1","cniVersion":"1.0.0","name":"podrun-1","prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.64.0.2/24"}]},"runtimeConfig":{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":""}]},"type":"podrun-net"}`
	if diff := cmp.Diff(want, string(a.stdin)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	whole := string(cachedOwn(t, gone, "/ns"))
	for name, data := range map[string]string{
		"cut":          whole[:len(whole)-10],
		"no sandbox":   strings.Replace(whole, gone, "../../../x", 1),
		"no interface": strings.Replace(whole, `"eth0"`, `""`, 1),
		"another":      strings.Replace(whole, `"podrun-1"`, `"podrun-2"`, 1),
		"no result":    strings.Replace(whole, `"result"`, `"results"`, 1),
	} {
		if a, ok := parseOwn([]byte(data), "podrun-1"); ok {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestLacks(t *testing.T) {
	a := ownAttachment{sandbox: gone, ifName: "eth0", bridge: "podrun-1", families: []uint8{unix.NFPROTO_IPV4}}
	own := map[uint8][]string{unix.NFPROTO_IPV4: {here + "/eth0", gone + "/eth0"}}
	for name, c := range map[string]struct {
		rules ownRules
		want  bool
	}{
		"all there":            {ownRules{attachments: own}, false},
		"all flushed":          {ownRules{}, true},
		"another's only":       {ownRules{attachments: map[uint8][]string{unix.NFPROTO_IPV4: {here + "/eth0"}}}, true},
		"another interface":    {ownRules{attachments: map[uint8][]string{unix.NFPROTO_IPV4: {gone + "/eth1"}}}, true},
		"another family":       {ownRules{attachments: map[uint8][]string{unix.NFPROTO_IPV6: {gone + "/eth0"}}}, true},
		"FORWARD without them": {ownRules{own, map[uint8][]string{unix.NFPROTO_IPV4: {""}}}, true},
		"an empty FORWARD":     {ownRules{own, map[uint8][]string{unix.NFPROTO_IPV4: nil}}, true},
		"FORWARD with them":    {ownRules{own, map[uint8][]string{unix.NFPROTO_IPV4: {"podrun-net podrun-1"}}}, false},
		"FORWARD of IPv6 only": {ownRules{own, map[uint8][]string{unix.NFPROTO_IPV6: nil}}, false},
	} {
		if got := c.rules.lacks(a); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRestore uses this machine's kernel, in a separate network namespace, and a plugin that
// records its calls. The tests of embedded/bundle/podrun-net cover the ADD of the real plugin.
func TestRestore(t *testing.T) {
	nft := inOwnNetwork(t)
	root, results := t.TempDir(), t.TempDir()
	plugin, calls := filepath.Join(root, "runtime/ab/cni/podrun-net"), filepath.Join(root, "calls")
	netns := fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
	for path, text := range map[string]string{
		plugin: "#!/bin/sh\necho $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_NETNS >>" + calls + "\n",
		filepath.Join(results, "podrun-1-"+here+"-eth0"):                    string(cachedOwn(t, here, netns)),
		filepath.Join(results, "podrun-1-"+gone+"-eth0"):                    string(cachedOwn(t, gone, netns)),
		filepath.Join(results, "podrun-1-"+strings.Repeat("a", 64)+"-eth0"): string(cachedOwn(t, strings.Repeat("a", 64), root+"/of-another-boot")),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const table = "table ip podrun-net-podrun-1 {\nchain postrouting {\ntype nat hook postrouting priority 100;\n%s\n}\n}\n"
	rule := func(id string) string { return `ip saddr 10.64.0.2 masquerade comment "` + id + `/eth0"` + "\n" }
	add := func(id string) string { return "ADD " + id + " eth0 " + netns + "\n" }
	const filter = "table ip filter {\nchain FORWARD {\ntype filter hook forward priority 0; policy drop;\n%s\n}\n}\n"
	for _, c := range []struct{ name, rules, want string }{
		{"flushed", "", add(here) + add(gone)},
		{"one is there", fmt.Sprintf(table, rule(here)), add(gone)},
		{"both", fmt.Sprintf(table, rule(here)+rule(gone)), ""},
		{"FORWARD lacks them", fmt.Sprintf(table, rule(here)+rule(gone)) + fmt.Sprintf(filter, ""), add(here) + add(gone)},
		{"FORWARD has them", fmt.Sprintf(table, rule(here)+rule(gone)) + fmt.Sprintf(filter, `oifname "podrun-1" accept comment "podrun-net podrun-1"`), ""},
	} {
		script := exec.Command(nft, "-f", "-")
		script.Stdin = strings.NewReader("flush ruleset\n" + c.rules)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		os.Remove(calls)
		n, err := restore(t.Context(), root, results, "podrun-1")
		got, _ := os.ReadFile(calls)
		if err != nil || n != strings.Count(c.want, "\n") || !maps.Equal(lines(string(got)), lines(c.want)) {
			t.Errorf("%s: %d, %v, calls:\n%swant:\n%s", c.name, n, err, got, c.want)
		}
	}
	if err := os.Remove(plugin); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(nft, "flush", "ruleset").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := restore(t.Context(), root, results, "podrun-1"); err == nil || !strings.Contains(err.Error(), "no podrun-net is unpacked") {
		t.Errorf("without the plugin: %v", err)
	}
	if n, err := restore(t.Context(), root, results, "podrun-2"); n != 0 || err != nil {
		t.Errorf("of another network: %d, %v", n, err)
	}
}

func lines(s string) map[string]bool {
	out := map[string]bool{}
	for l := range strings.Lines(s) {
		out[l] = true
	}
	return out
}
