package certificate

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/internal/problem"
)

// host is a node that has joined a cluster with kubeadm, and the API server of the cluster.
type host struct {
	t                *testing.T
	dir, link        string
	kubeconfig       string
	warnings         []string
	mu               sync.Mutex
	requests         []*certificatesv1.CertificateSigningRequest
	answer           func(*certificatesv1.CertificateSigningRequest) // sets the status when a request is read
	createErr        error
	reads, readFails int
}

// onHost runs a test in a bubble, on a host whose certificate has a validity.
func onHost(t *testing.T, validity time.Duration, test func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		h := &host{t: t, dir: dir, link: filepath.Join(dir, current), kubeconfig: filepath.Join(dir, "kubelet.conf"), answer: func(*certificatesv1.CertificateSigningRequest) {}}
		key := newKey(t)
		first := &pair{[]*x509.Certificate{h.sign(key.Public(), node(), validity)}, key}
		if err := os.Symlink(filepath.Join(dir, "none"), h.link); err != nil {
			t.Fatal(err)
		}
		if err := first.store(h.link, time.Now()); err != nil {
			t.Fatal(err)
		}
		h.configure("client-certificate: " + current + ", client-key: " + current)
		test(t, h)
	})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// node returns the subject of node-a.
func node() pkix.Name {
	return pkix.Name{CommonName: "system:node:node-a", Organization: []string{"system:nodes"}}
}

// sign returns a client certificate.
func (h *host) sign(key crypto.PublicKey, subject pkix.Name, validity time.Duration, change ...func(*x509.Certificate)) *x509.Certificate {
	h.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().Unix()), Subject: subject, NotBefore: time.Now(), NotAfter: time.Now().Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, newKey(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// configure writes a kubeconfig with the credentials of its user.
func (h *host) configure(user string) {
	h.t.Helper()
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],\n"+
		"clusters: [{name: c, cluster: {server: 'https://api.example'}}], users: [{name: u, user: {%s}}]}", user)
	if err := os.WriteFile(h.kubeconfig, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// Create implements Requests.
func (h *host) Create(ctx context.Context, r *certificatesv1.CertificateSigningRequest, _ metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.createErr != nil {
		return nil, h.createErr
	}
	r.Name = fmt.Sprintf("%s%d", r.GenerateName, len(h.requests))
	r.UID = types.UID("uid-of-" + r.Name)
	h.requests = append(h.requests, r)
	return r.DeepCopy(), ctx.Err()
}

// Get implements Requests.
func (h *host) Get(ctx context.Context, name string, _ metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reads++; h.reads <= h.readFails {
		return nil, errors.New("connection refused")
	}
	for _, r := range h.requests {
		if r.Name == name {
			out := r.DeepCopy()
			h.answer(out)
			return out, ctx.Err()
		}
	}
	return nil, apierrors.NewNotFound(certificatesv1.Resource("certificatesigningrequests"), name)
}

// approve sets the answer to an approval with a certificate.
func (h *host) approve(certificate func(key crypto.PublicKey) []byte) {
	h.answer = func(r *certificatesv1.CertificateSigningRequest) {
		block, _ := pem.Decode(r.Spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			h.t.Fatal(err)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
		r.Status.Certificate = certificate(parsed.PublicKey)
	}
}

// issue sets the answer to a certificate of this node.
func (h *host) issue(validity time.Duration) {
	h.approve(func(key crypto.PublicKey) []byte { return encode(h.sign(key, node(), validity)) })
}

// run runs a Renewer until the returned function is called.
func (h *host) run() (end func()) {
	r := Renewer{Kubeconfig: h.kubeconfig, Node: "node-a", Requests: h, Warn: func(l problem.List) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, p := range l {
			h.warnings = append(h.warnings, p.String())
		}
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	h.t.Cleanup(cancel)
	return func() { cancel(); <-done }
}

// warned counts the warnings that contain a text.
func (h *host) warned(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.warnings {
		if strings.Contains(w, text) {
			n++
		}
	}
	return n
}

// files returns the files of certificates with their contents.
func (h *host) files() map[string]string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, "*.pem"))
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			h.t.Fatal(err)
		}
		out[filepath.Base(path)] = string(data)
	}
	return out
}

// leaf returns the certificate that the kubelet would use, and checks that its key belongs to it.
func (h *host) leaf() *x509.Certificate {
	h.t.Helper()
	loaded, err := tls.LoadX509KeyPair(h.link, h.link)
	if err != nil {
		h.t.Fatal(err)
	}
	return loaded.Leaf
}

// TestRenew checks the request for a new certificate, and the files after the renewal.
func TestRenew(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		h.issue(100 * time.Hour)
		old, before := h.leaf(), h.files()
		due := renewal(old)
		end := h.run()
		time.Sleep(time.Until(due) - time.Second)
		synctest.Wait()
		if len(h.requests) != 0 {
			t.Fatalf("renewed at %s, before %s", time.Now(), due)
		}
		time.Sleep(2 * time.Second)
		end()
		if len(h.requests) != 1 || len(h.warnings) != 0 {
			t.Fatalf("%d requests, warnings %q", len(h.requests), h.warnings)
		}
		spec := h.requests[0].Spec
		if spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" || h.requests[0].GenerateName != "csr-" || spec.ExpirationSeconds != nil ||
			!slices.Equal(spec.Usages, []certificatesv1.KeyUsage{"digital signature", "client auth"}) {
			t.Errorf("request %+v", spec)
		}
		block, rest := pem.Decode(spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 || parsed.CheckSignature() != nil || parsed.Subject.String() != node().String() {
			t.Errorf("request %v of %v: %v", block, parsed.Subject, err)
		}
		if now := h.leaf(); now.Equal(old) || now.NotBefore.Before(due.Truncate(time.Second)) {
			t.Errorf("the certificate is valid from %s, renewed at %s", now.NotBefore, due)
		}
		name := "kubelet-client-" + due.Local().Format("2006-01-02-15-04-05") + ".pem"
		after := h.files()
		if target, err := os.Readlink(h.link); err != nil || target != filepath.Join(h.dir, name) {
			t.Errorf("the link refers to %s, want %s: %v", target, name, err)
		}
		info, err := os.Stat(h.link)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %s: %v", info.Mode(), err)
		}
		if first, second, ok := strings.Cut(after[name], "-----END CERTIFICATE-----\n"); !ok || !strings.HasPrefix(first, "-----BEGIN CERT") || !strings.HasPrefix(second, "-----BEGIN EC PRIVATE KEY-----") {
			t.Error("the file does not contain the certificate and then the key")
		}
		delete(after, name)
		delete(after, current)
		delete(before, current)
		if !maps.Equal(after, before) {
			t.Errorf("other files: %v, want %v", slices.Collect(maps.Keys(after)), slices.Collect(maps.Keys(before)))
		}
	})
}

// TestRefused checks that no answer except a usable certificate replaces the files, that podrun warns once, and
// that it renews the certificate later.
func TestRefused(t *testing.T) {
	conditions := func(c ...certificatesv1.CertificateSigningRequestCondition) func(*host) {
		return func(h *host) {
			h.answer = func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions = c }
		}
	}
	approved := certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved}
	issued := func(certificate func(h *host, key crypto.PublicKey) []byte) func(*host) {
		return func(h *host) {
			h.approve(func(key crypto.PublicKey) []byte { return certificate(h, key) })
		}
	}
	for name, c := range map[string]struct {
		refuse  func(*host)
		warning string
	}{
		"denied": {conditions(certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Reason: "Policy", Message: "unknown node"}),
			"CertificateSigningRequest csr-0: Denied: Policy: unknown node"},
		"failed":   {conditions(approved, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed, Reason: "SignerError"}), "csr-0: Failed: SignerError"},
		"pending":  {conditions(), "csr-0: no certificate within 15m0s: it is not approved or not signed"},
		"unsigned": {conditions(approved), "csr-0: no certificate within 15m0s: it is not approved or not signed"},
		"forbidden": {func(h *host) {
			h.createErr = apierrors.NewForbidden(certificatesv1.Resource("certificatesigningrequests"), "", errors.New("can only create a node CSR with CN=system:node:b"))
		}, "create a CertificateSigningRequest: certificatesigningrequests.certificates.k8s.io is forbidden"},
		"deleted":  {func(h *host) { h.answer = func(*certificatesv1.CertificateSigningRequest) { h.requests = nil } }, "csr-0: it was deleted before a certificate was issued"},
		"replaced": {func(h *host) { h.answer = func(r *certificatesv1.CertificateSigningRequest) { r.UID = "other" } }, "csr-0: it was replaced by another request"},
		"garbage":  {issued(func(*host, crypto.PublicKey) []byte { return []byte("garbage") }), "csr-0: the issued certificate is invalid"},
		"another key": {issued(func(h *host, _ crypto.PublicKey) []byte {
			return encode(h.sign(newKey(h.t).Public(), node(), time.Hour))
		}),
			"csr-0: the issued certificate belongs to another key"},
		"another user": {issued(func(h *host, key crypto.PublicKey) []byte {
			return encode(h.sign(key, pkix.Name{CommonName: "system:node:node-b", Organization: []string{"system:nodes"}}, time.Hour))
		}), `belongs to "CN=system:node:node-b,O=system:nodes", and not to the user system:node:node-a in the group system:nodes`},
		"another group": {issued(func(h *host, key crypto.PublicKey) []byte {
			return encode(h.sign(key, pkix.Name{CommonName: "system:node:node-a"}, time.Hour))
		}), "and not to the user system:node:node-a in the group system:nodes"},
		"expired": {issued(func(h *host, key crypto.PublicKey) []byte {
			return encode(h.sign(key, node(), time.Hour, func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = c.NotBefore.Add(-2*time.Hour), c.NotBefore.Add(-time.Hour)
			}))
		}), "csr-0: the issued certificate expired at "},
		"for servers": {issued(func(h *host, key crypto.PublicKey) []byte {
			return encode(h.sign(key, node(), time.Hour, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))
		}), "csr-0: the issued certificate is not for clients"},
	} {
		t.Run(name, func(t *testing.T) {
			onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
				c.refuse(h)
				before := h.files()
				defer h.run()()
				time.Sleep(time.Until(renewal(h.leaf())) + time.Hour)
				synctest.Wait()
				if got := h.files(); !maps.Equal(got, before) {
					t.Errorf("the files have changed: %v", slices.Collect(maps.Keys(got)))
				}
				if len(h.warnings) != 1 || h.warned(c.warning) != 1 || h.warned("podrun-node retries") != 1 {
					t.Errorf("warnings %q, want one with %q", h.warnings, c.warning)
				}
				if n := len(h.requests); n > 15 {
					t.Errorf("%d requests in an hour", n)
				}
				h.mu.Lock()
				h.createErr = nil
				h.issue(100 * time.Hour)
				h.mu.Unlock()
				time.Sleep(lastRetry + longestWait)
				synctest.Wait()
				if got := h.files(); len(got) != len(before)+1 || h.warned("has renewed the client certificate") != 1 || len(h.warnings) != 2 {
					t.Errorf("afterwards: files %v, warnings %q", slices.Collect(maps.Keys(got)), h.warnings)
				}
			})
		})
	}
}

// TestLostConnection checks that podrun keeps waiting for a certificate if the API server does not answer.
func TestLostConnection(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		h.issue(100 * time.Hour)
		h.readFails = 10
		old := h.leaf()
		defer h.run()()
		time.Sleep(time.Until(renewal(old)) + longestWait)
		synctest.Wait()
		if h.leaf().Equal(old) || len(h.requests) != 1 || len(h.warnings) != 0 {
			t.Errorf("%d requests, warnings %q", len(h.requests), h.warnings)
		}
	})
}

// TestInterrupt checks that Run ends while it waits for a certificate, and prints no warning.
func TestInterrupt(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		end := h.run()
		time.Sleep(time.Until(renewal(h.leaf())) + time.Minute)
		at := time.Now()
		end()
		if len(h.requests) != 1 || !time.Now().Equal(at) || len(h.warnings) != 0 {
			t.Errorf("%d requests; ended after %s; warnings %q", len(h.requests), time.Since(at), h.warnings)
		}
	})
}

// TestWarnings checks that podrun warns once a day about a certificate that it does not renew, and that it uses
// the certificate of a new kubeconfig.
func TestWarnings(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		embedded := h.sign(newKey(t).Public(), node(), 110*time.Hour, func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-890 * time.Hour) })
		h.configure("client-certificate-data: " + base64.StdEncoding.EncodeToString(encode(embedded)) + ", client-key-data: aw==")
		h.issue(100 * time.Hour)
		defer h.run()()
		want := func(when string, soon, expired int) {
			t.Helper()
			synctest.Wait()
			if h.warned("the kubeconfig contains the certificate") != soon || h.warned("API servers refuse it") != expired || len(h.warnings) != soon+expired {
				t.Errorf("%s: warnings %q, want %d and %d", when, h.warnings, soon, expired)
			}
		}
		time.Sleep(9 * time.Hour)
		want("before the last tenth", 0, 0)
		time.Sleep(2 * time.Hour)
		want("in the last tenth", 1, 0)
		time.Sleep(24 * time.Hour)
		want("a day later", 2, 0)
		time.Sleep(76 * time.Hour)
		want("after the expiry", 5, 1)
		if len(h.requests) != 0 {
			t.Errorf("%d requests", len(h.requests))
		}
		key := newKey(t)
		if err := (&pair{[]*x509.Certificate{h.sign(key.Public(), node(), 100*time.Hour)}, key}).store(h.link, time.Now()); err != nil {
			t.Fatal(err)
		}
		h.configure("client-certificate: " + current + ", client-key: " + current)
		time.Sleep(93 * time.Hour)
		want("with a new kubeconfig", 5, 1)
		if len(h.requests) != 1 {
			t.Errorf("%d requests", len(h.requests))
		}
	})
}

// TestUnreadable checks that podrun reports a kubeconfig that it cannot read, and reads it again.
func TestUnreadable(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		h.issue(100 * time.Hour)
		h.configure("client-certificate: none.pem, client-key: none.pem")
		defer h.run()()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(h.warnings) != 1 || h.warned("none.pem: no such file") != 1 {
			t.Errorf("warnings %q", h.warnings)
		}
		h.configure("client-certificate: " + current + ", client-key: " + current)
		time.Sleep(95 * time.Hour)
		synctest.Wait()
		if len(h.requests) != 1 {
			t.Errorf("%d requests", len(h.requests))
		}
	})
}

// TestKill checks that a kill between two steps of a renewal leaves a usable certificate, and that the next
// renewal removes the leftover link.
func TestKill(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		old := h.leaf()
		h.issue(100 * time.Hour)
		// What remains after a kill before the link was replaced.
		half := filepath.Join(h.dir, "kubelet-client-2026-01-02-03-04-05.pem")
		leftover := filepath.Join(h.dir, "kubelet-client-updated.pem")
		if err := errors.Join(os.WriteFile(half, []byte("half"), 0o600), os.Symlink(half, leftover)); err != nil {
			t.Fatal(err)
		}
		if !h.leaf().Equal(old) {
			t.Error("the link does not refer to the old certificate")
		}
		defer h.run()()
		time.Sleep(time.Until(renewal(old)) + time.Minute)
		synctest.Wait()
		if _, err := os.Lstat(leftover); h.leaf().Equal(old) || !errors.Is(err, fs.ErrNotExist) || len(h.warnings) != 0 {
			t.Errorf("leftover link: %v; warnings %q", err, h.warnings)
		}
	})
}

// TestStoreFails checks that the old certificate stays in use if the new one cannot be stored.
func TestStoreFails(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		old := h.leaf()
		h.issue(100 * time.Hour)
		if err := os.Mkdir(filepath.Join(h.dir, "kubelet-client-updated.pem"), 0o700); err != nil {
			t.Fatal(err)
		}
		end := h.run()
		time.Sleep(time.Until(renewal(old)) + time.Minute)
		end()
		if !h.leaf().Equal(old) || len(h.warnings) != 1 || h.warned("kubelet-client-updated.pem is not a symbolic link") != 1 {
			t.Errorf("warnings %q", h.warnings)
		}
	})
}

// TestIntermediates checks that intermediate certificates are stored between the certificate and the key.
func TestIntermediates(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		intermediate := encode(h.sign(newKey(t).Public(), pkix.Name{CommonName: "intermediate"}, 100*time.Hour))
		h.approve(func(key crypto.PublicKey) []byte {
			return append(encode(h.sign(key, node(), 100*time.Hour)), intermediate...)
		})
		end := h.run()
		time.Sleep(time.Until(renewal(h.leaf())) + time.Second)
		end()
		loaded, err := tls.LoadX509KeyPair(h.link, h.link)
		if err != nil || len(loaded.Certificate) != 2 {
			t.Fatalf("%d certificates: %v", len(loaded.Certificate), err)
		}
		if block, _ := pem.Decode(intermediate); !bytes.Equal(loaded.Certificate[1], block.Bytes) {
			t.Error("the second certificate is not the intermediate one")
		}
	})
}

// TestExpiringAuthority checks that certificates of a CA that is about to expire are not requested in a loop.
func TestExpiringAuthority(t *testing.T) {
	onHost(t, 100*time.Hour, func(t *testing.T, h *host) {
		h.approve(func(key crypto.PublicKey) []byte {
			return encode(h.sign(key, node(), 30*time.Second, func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-5 * time.Minute) }))
		})
		defer h.run()()
		time.Sleep(time.Until(renewal(h.leaf())) + time.Second)
		synctest.Wait()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(h.requests) != 1 {
			t.Errorf("%d requests in 30 s", len(h.requests))
		}
	})
}
