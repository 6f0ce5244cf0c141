package nodeapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/test/patience"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue issues a certificate that a has signed, or a self-signed certificate if a has no
// certificate.
func (a *authority) issue(name string, usage x509.ExtKeyUsage, isCA bool) (cert, key []byte, made authority) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, k
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &k.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), authority{a.t, parsed, k}
}

// testTLS contains the files of a listener, and certificates of its client CA.
type testTLS struct {
	files          TLSFiles
	ca             authority
	client, server tls.Certificate
	roots          *x509.CertPool
}

func newTLS(t *testing.T) testTLS {
	t.Helper()
	none := authority{t: t}
	caPEM, _, ca := none.issue("ca", x509.ExtKeyUsageAny, true)
	certPEM, keyPEM, _ := ca.issue("server", x509.ExtKeyUsageServerAuth, false)
	dir := t.TempDir()
	out := testTLS{files: TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}, ca: ca, roots: x509.NewCertPool()}
	for path, data := range map[string][]byte{out.files.Cert: certPEM, out.files.Key: keyPEM, out.files.ClientCA: caPEM} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clientCert, clientKey, _ := ca.issue("client", x509.ExtKeyUsageClientAuth, false)
	out.client, out.server = keyPair(t, clientCert, clientKey), keyPair(t, certPEM, keyPEM)
	out.roots.AddCert(ca.cert)
	return out
}

func keyPair(t *testing.T, cert, key []byte) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestListenTLS checks that clients without a certificate of the CA get no response.
func TestListenTLS(t *testing.T) {
	with := newTLS(t)
	files := with.files
	none := authority{t: t}
	strangerCert, strangerKey, _ := none.issue("stranger", x509.ExtKeyUsageClientAuth, false)
	l, err := ListenTLS(t.Context(), "127.0.0.1:0", files)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(testBackend(1))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() { s.Close(); <-done }()
	askFor := func(path, scheme string, certs ...tls.Certificate) (int, error) {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: with.roots, Certificates: certs}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+l.Addr().String()+path, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Upgrade", "websocket")
		resp, err := patience.Client(t, transport).Do(req)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		return resp.StatusCode, nil
	}
	ask := func(scheme string, certs ...tls.Certificate) (int, error) {
		return askFor("/healthz", scheme, certs...)
	}
	if code, err := ask("https", with.client); code != 200 || err != nil {
		t.Errorf("with a certificate: %d %v", code, err)
	}
	for _, path := range []string{"/exec/default/web/app?command=sh&output=1", "/attach/default/web/app?output=1", "/portForward/default/web"} {
		if code, err := askFor(path, "https", with.client); code != http.StatusForbidden || err != nil {
			t.Errorf("%s with a certificate: %d %v", path, code, err)
		}
	}
	for name, test := range map[string]func() (int, error){
		"no certificate":         func() (int, error) { return ask("https") },
		"another authority":      func() (int, error) { return ask("https", keyPair(t, strangerCert, strangerKey)) },
		"a server's certificate": func() (int, error) { return ask("https", with.server) },
		"http":                   func() (int, error) { return ask("http", with.client) },
	} {
		if code, err := test(); code == 200 {
			t.Errorf("%s: answered %d %v", name, code, err)
		}
	}
	r := &rotated{files: files, config: &tls.Config{}}
	first := r.current()
	os.WriteFile(files.Cert, []byte("half"), 0o600)
	r.read = time.Time{}
	if len(first.Certificates) != 1 || r.current() != first {
		t.Error("files that are temporarily invalid replace the previous ones")
	}
	for _, f := range []TLSFiles{files, {Cert: files.Cert, Key: "/none", ClientCA: files.ClientCA}} {
		if _, err := ListenTLS(t.Context(), "127.0.0.1:0", f); err == nil || !strings.Contains(err.Error(), "listen on 127.0.0.1:0") {
			t.Errorf("files %v: %v", f, err)
		}
	}
}
