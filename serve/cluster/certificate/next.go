package certificate

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"time"
)

// Credentials describe the client certificate of a kubeconfig.
type Credentials struct {
	// CertFile and KeyFile are the absolute paths in the kubeconfig. They are empty if the kubeconfig contains
	// the certificate and the key.
	CertFile, KeyFile string
	// Link is true if CertFile is a symbolic link.
	Link bool
	// Leaf is nil if the kubeconfig has no client certificate.
	Leaf *x509.Certificate
}

// Step is what to do about a certificate.
type Step struct {
	// Renew is the time at which podrun renews the certificate; zero if podrun does not renew it.
	Renew         time.Time
	Warning, Hint string
}

// current is the name of the link to the file with the current certificate and key. It is a part of the
// interface between kubeadm and the kubelet.
const current = "kubelet-client-current.pem"

// soon is the longest period before its expiry in which podrun warns about a certificate that it does not
// renew.
const soon = 30 * 24 * time.Hour

// Next returns what to do about a client certificate. podrun renews the certificates that kubeadm makes the
// kubelet renew; k3s, for example, renews its certificates itself. An API server refuses an expired
// certificate, also for its renewal.
func Next(c Credentials, node string, now time.Time) Step {
	if c.Leaf == nil {
		return Step{}
	}
	expiry := c.Leaf.NotAfter
	if now.After(expiry) {
		return Step{
			Warning: fmt.Sprintf("the client certificate expired at %s, and API servers refuse it", date(expiry)),
			Hint: fmt.Sprintf("create new credentials, with kubeadm by 'kubeadm kubeconfig user --org system:nodes --client-name %s' on a host of the control plane, and replace the kubeconfig; "+
				"podrun-node uses it from the next request on", user(node)),
		}
	}
	reason := obstacle(c, node)
	if reason == "" {
		return Step{Renew: renewal(c.Leaf)}
	}
	if expiry.Sub(now) > min(soon, validity(c.Leaf)/10) {
		return Step{}
	}
	return Step{
		Warning: fmt.Sprintf("the client certificate expires at %s, and podrun-node does not renew it: %s", date(expiry), reason),
		Hint:    "replace the credentials before they expire; podrun-node renews a certificate if client-certificate and client-key of the kubeconfig name the link " + current + ", as with kubeadm",
	}
}

// obstacle returns why podrun does not renew a certificate; "" if it does.
func obstacle(c Credentials, node string) string {
	switch {
	case c.CertFile == "":
		return "the kubeconfig contains the certificate"
	case c.CertFile != c.KeyFile || filepath.Base(c.CertFile) != current:
		return "the kubeconfig does not name " + current
	case !c.Link:
		// The kubelet's certificate store refuses to replace it.
		return c.CertFile + " is a file and not a symbolic link"
	case c.Leaf.Subject.CommonName != user(node):
		return fmt.Sprintf("it belongs to the user %s, and not to %s", c.Leaf.Subject.CommonName, user(node))
	}
	return ""
}

// renewal returns when podrun renews a certificate: after 70 % to 90 % of its validity, as the kubelet does,
// so that nodes that joined at the same time do not renew at the same time. The point depends only on the
// certificate, so a restart does not change it.
func renewal(leaf *x509.Certificate) time.Time {
	sum := sha256.Sum256(leaf.Raw)
	spread := float64(binary.BigEndian.Uint64(sum[:])) / math.MaxUint64
	return leaf.NotBefore.Add(time.Duration(float64(validity(leaf)) * (0.7 + 0.2*spread)))
}

func validity(leaf *x509.Certificate) time.Duration { return leaf.NotAfter.Sub(leaf.NotBefore) }

// user returns the user name of a node.
func user(node string) string { return "system:node:" + node }

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
