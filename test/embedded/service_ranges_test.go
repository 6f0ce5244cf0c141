package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/test/ring"
)

// TestDamagedServiceRanges damages the record of the ranges of virtual IPs. Other Services can be applied
// and deleted, the existing one keeps its virtual IP, and the record is written again, except over one of a
// newer podrun.
func TestDamagedServiceRanges(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.write("shop.yaml", fmt.Sprintf(shopText, imageName, r.nodePort))
	r.must("apply", "shop.yaml")
	ip := r.must("get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
	record := filepath.Join(r.layout.RootDir, "services", "ranges.json")
	intact, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	const other = "apiVersion: v1\nkind: Service\nmetadata: {name: other}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n"
	r.write("other.yaml", other)
	for name, damage := range map[string]func() error{
		"absent":    func() error { return nil },
		"empty":     func() error { return os.WriteFile(record, nil, 0o600) },
		"cut":       func() error { return os.WriteFile(record, intact[:len(intact)/2], 0o600) },
		"zeros":     func() error { return os.WriteFile(record, make([]byte, len(intact)), 0o600) },
		"directory": func() error { return os.Mkdir(record, 0o700) },
		"newer": func() error {
			return os.WriteFile(record, append([]byte("# podrun schema 99\n"), intact...), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.T = t
			if err := errors.Join(os.RemoveAll(record), damage()); err != nil {
				t.Fatal(err)
			}
			r.must("apply", "other.yaml")
			if now := r.must("get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}"); now != ip {
				t.Errorf("the virtual IP changed from %s to %s", ip, now)
			}
			second := r.must("get", "svc", "other", "-o", "jsonpath={.spec.clusterIP}")
			if second == ip || !inOneRange(t, intact, ip, second) {
				t.Errorf("virtual IPs %s and %s; ranges %s", ip, second, intact)
			}
			r.serves(second + ":80")
			r.must("delete", "svc", "other")
			r.serves(ip + ":80")
			data, err := os.ReadFile(record)
			switch {
			case name == "newer":
				if err != nil || !strings.Contains(string(data), "99") {
					t.Errorf("the record of a newer podrun was replaced: %q, %v", data, err)
				}
			case err != nil || string(data) != string(intact):
				t.Errorf("the record is %q, %v; want %q", data, err, intact)
			}
		})
	}
	r.must("delete", "-f", "shop.yaml")
	if err := os.Remove(statefile.Aside(record)); err != nil { // podrun keeps a damaged file for the user
		t.Error(err)
	}
	r.hasNoService()
}

// inOneRange reports whether a range of the record contains all addresses.
func inOneRange(t *testing.T, record []byte, addresses ...string) bool {
	t.Helper()
	content, _ := identity.CutSchema(record)
	var ranges []netip.Prefix
	if err := json.Unmarshal(content, &ranges); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool {
		return !slices.ContainsFunc(addresses, func(a string) bool { return !r.Contains(netip.MustParseAddr(a)) })
	})
}
