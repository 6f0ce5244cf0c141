package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/patience"
)

// clientPair returns a client certificate of a user, and its key.
func clientPair(t *testing.T, user string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: bytes})
}

// TestRotatedCredentials checks that requests use the client certificate that the kubeconfig, or a file to
// which it refers, has at that time.
func TestRotatedCredentials(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q}}`, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir := t.TempDir()
	kubeconfig, certFile, keyFile := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	write := func(path string, data []byte) {
		t.Helper()
		if err := hostfile.Write(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(user string) {
		write(kubeconfig, []byte(fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {%s}}]}`, server.URL, authority, user)))
	}
	embedded := func(user string) {
		cert, key := clientPair(t, user)
		config("client-certificate-data: " + base64.StdEncoding.EncodeToString(cert) + ", client-key-data: " + base64.StdEncoding.EncodeToString(key))
	}
	files := func(user string) {
		cert, key := clientPair(t, user)
		write(certFile, cert)
		write(keyFile, key)
	}
	defer func(d time.Duration) { transport.CertCallbackRefreshDuration = d }(transport.CertCallbackRefreshDuration)
	transport.CertCallbackRefreshDuration = 50 * time.Millisecond
	embedded("first")
	var warnings problem.List
	_, ofClient, err := newCredentials(kubeconfig, func(l problem.List) { warnings = append(warnings, l...) })
	if err != nil {
		t.Fatal(err)
	}
	client, err := newRESTClient(ofClient)
	if err != nil {
		t.Fatal(err)
	}
	sees := func() string {
		t.Helper()
		n, err := client.Nodes().Get(t.Context(), "node", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Name
	}
	want := func(user string) {
		t.Helper()
		if got := sees(); got != user {
			t.Errorf("the server sees user %s, want %s", got, user)
		}
	}
	want("first")
	want("first")
	embedded("second")
	want("second")
	if err := os.WriteFile(kubeconfig, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("second")
	want("second")
	if len(warnings) != 1 || !strings.Contains(warnings[0].Message, "previous credentials") {
		t.Errorf("warnings about an invalid kubeconfig: %v", warnings)
	}
	files("third")
	config("client-certificate: " + certFile + ", client-key: " + keyFile)
	want("third")
	files("fourth")
	patience.Wait(t, patience.OnFake, "the server sees user fourth", func() bool { return sees() == "fourth" })
	pair := func(user string) {
		cert, key := clientPair(t, user)
		write(certFile, append(cert, key...))
	}
	pair("fifth")
	config("client-certificate: " + certFile + ", client-key: " + certFile)
	want("fifth")
	pair("sixth")
	want("sixth")
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	want("sixth")
	pair("seventh")
	want("seventh")
}
