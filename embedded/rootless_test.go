package embedded

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/cniplugin"
)

// TestRootlessConfig checks the settings of containerd for an ordinary user: podrun-oci, no AppArmor, no huge pages,
// no lower OOM scores.
func TestRootlessConfig(t *testing.T) {
	l := Layout{RootDir: "/home/ann/.local/share/podrun", RunDir: "/run/user/1001/podrun"}
	text := string(Config(l, StartOptions{Digest: someDigest}, Traits{Overlay: true, Rootless: true}))
	for _, want := range []string{`BinaryName = "` + l.Unpacked(someDigest) + `/bin/podrun-oci"`, "disable_apparmor = true", "disable_hugetlb_controller = true", "restrict_oom_score_adj = true", "oom_score = 0"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the configuration lacks %s", want)
		}
	}
	_, section, _ := strings.Cut(text, "["+runtimeSection+"]\n")
	section, _, _ = strings.Cut(section, "\n[")
	if !strings.Contains(section, "disable_apparmor") {
		t.Error("disable_apparmor is in another section")
	}
	if root := string(Config(l, StartOptions{Digest: someDigest}, Traits{Overlay: true})); strings.Contains(root, "podrun-oci") || strings.Contains(root, "disable_apparmor") {
		t.Error("root's configuration has settings of an ordinary user")
	}
}

// TestRootlessNetwork checks that the plugin gets the namespace, also for a call by podrun.
func TestRootlessNetwork(t *testing.T) {
	namespace := &cniplugin.Rootless{Netns: "/r/netns", Ports: "/r/ports.sock"}
	data, err := Network(Layout{RootDir: "/r"}, []netip.Prefix{netip.MustParsePrefix("10.64.0.0/24")}, false, namespace)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pluginOf(data)
	if err != nil || config["name"] == "" || config["ipam"] == nil {
		t.Fatalf("the plugin's configuration is %v, %v", config, err)
	}
	var got struct{ Rootless *cniplugin.Rootless }
	text, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Rootless == nil || *got.Rootless != *namespace {
		t.Errorf("the namespace is %v, %v", got.Rootless, err)
	}
	if _, err := pluginOf([]byte(`{"plugins": []}`)); err == nil {
		t.Error("a network without a plugin was accepted")
	}
}

// TestKeeperIsNoStray checks that the end of one runtime does not end podrun-rootless, which other runtimes use.
func TestKeeperIsNoStray(t *testing.T) {
	l := Layout{RootDir: "/r"}
	if _, ok := recognize(l, l.Dir(), 1, l.Unpacked(someDigest)+"/bin/"+rootlessProgram); ok {
		t.Error("podrun-rootless counts as a process of the runtime")
	}
}
