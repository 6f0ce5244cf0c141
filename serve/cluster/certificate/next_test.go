package certificate

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// valid returns the certificate of node-a that is valid from the first day of 2026 on.
func valid(period time.Duration) *x509.Certificate {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &x509.Certificate{Subject: pkix.Name{CommonName: "system:node:node-a"}, NotBefore: from, NotAfter: from.Add(period), Raw: []byte("node-a")}
}

// TestNext checks which certificates podrun renews, and when it warns about the others.
func TestNext(t *testing.T) {
	const link = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	kubeadm := Credentials{CertFile: link, KeyFile: link, Link: true}
	for _, c := range []struct {
		name        string
		credentials Credentials
		validity    time.Duration // 0: no certificate
		age         time.Duration
		renews      bool
		warning     string // a part of the warning; "" if there is none
	}{
		{name: "kubeadm", credentials: kubeadm, validity: 365 * day, age: day, renews: true},
		{name: "due", credentials: kubeadm, validity: 365 * day, age: 364 * day, renews: true},
		{name: "expired", credentials: kubeadm, validity: 365 * day, age: 366 * day, warning: "expired at 2027-01-01T00:00:00Z"},
		{name: "expires now", credentials: kubeadm, validity: 365 * day, age: 365 * day, renews: true},
		{name: "no certificate", credentials: Credentials{}, age: day},
		{name: "embedded", validity: 365 * day, age: day},
		{name: "embedded, 31 days before the expiry", validity: 365 * day, age: 334 * day},
		{name: "embedded, soon", validity: 365 * day, age: 336 * day, warning: "does not renew it: the kubeconfig contains the certificate"},
		{name: "embedded, a short validity", validity: 10 * day, age: 8 * day},
		{name: "embedded, a short validity, soon", validity: 10 * day, age: 9 * day, warning: "expires at 2026-01-11T00:00:00Z"},
		{name: "embedded, expired", validity: 10 * day, age: 11 * day, warning: "expired at 2026-01-11T00:00:00Z"},
		{name: "k3s", credentials: Credentials{CertFile: "/agent/client-kubelet.crt", KeyFile: "/agent/client-kubelet.key"}, validity: 365 * day, age: 340 * day,
			warning: "the kubeconfig does not name kubelet-client-current.pem"},
		{name: "another key", credentials: Credentials{CertFile: link, KeyFile: "/node.key", Link: true}, validity: 365 * day, age: 340 * day,
			warning: "the kubeconfig does not name kubelet-client-current.pem"},
		{name: "another name", credentials: Credentials{CertFile: "/node.pem", KeyFile: "/node.pem", Link: true}, validity: 365 * day, age: 340 * day,
			warning: "the kubeconfig does not name kubelet-client-current.pem"},
		{name: "a file", credentials: Credentials{CertFile: link, KeyFile: link}, validity: 365 * day, age: 340 * day, warning: link + " is a file and not a symbolic link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := valid(0).NotBefore.Add(c.age)
			if c.validity > 0 {
				c.credentials.Leaf = valid(c.validity)
			}
			got := Next(c.credentials, "node-a", now)
			if got.Renew.IsZero() == c.renews {
				t.Errorf("renewal at %s, want one: %t", got.Renew, c.renews)
			}
			if c.warning == "" && got.Warning != "" || !strings.Contains(got.Warning, c.warning) || (got.Hint == "") != (got.Warning == "") {
				t.Errorf("warning %q (%q), want %q", got.Warning, got.Hint, c.warning)
			}
		})
	}
	other := kubeadm
	other.Leaf = valid(365 * day)
	if got := Next(other, "node-b", other.Leaf.NotAfter.Add(-day)); !got.Renew.IsZero() || !strings.Contains(got.Warning, "belongs to the user system:node:node-a, and not to system:node:node-b") {
		t.Errorf("the certificate of another node: %+v", got)
	}
}

// TestRenewal checks that certificates are renewed after 70 % to 90 % of their validity, and that the points
// are spread over this period.
func TestRenewal(t *testing.T) {
	leaf := valid(100 * time.Hour)
	var buckets [4]int
	for i := range 400 {
		leaf.Raw = fmt.Appendf(nil, "certificate %d", i)
		at := renewal(leaf).Sub(leaf.NotBefore)
		if at < 70*time.Hour || at > 90*time.Hour {
			t.Fatalf("certificate %d: renewed after %s of %s", i, at, validity(leaf))
		}
		if again := renewal(leaf).Sub(leaf.NotBefore); again != at {
			t.Fatalf("certificate %d: renewed after %s, then after %s", i, at, again)
		}
		buckets[min(int((at-70*time.Hour)/(5*time.Hour)), 3)]++
	}
	for i, n := range buckets {
		if n < 50 {
			t.Errorf("only %d of 400 certificates are renewed in quarter %d of the period", n, i)
		}
	}
}
