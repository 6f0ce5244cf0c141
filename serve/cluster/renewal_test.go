package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve/cluster/certificate"
	"github.com/podrun/podrun/test/patience"
)

// signer is an API server with a CA for client certificates. It authenticates clients by their certificates.
type signer struct {
	t      *testing.T
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	codecs serializer.CodecFactory
	answer func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest)

	mu      sync.Mutex
	request *certificatesv1.CertificateSigningRequest
	clients []string // the serial number of the certificate of each request
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := certificatesv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &signer{t: t, codecs: serializer.NewCodecFactory(scheme)}
	s.ca, s.key = s.sign(nil, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return s
}

// sign signs a certificate of a key; if key is nil, of a new key. The certificate of a new signer signs itself.
func (s *signer) sign(key any, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	s.t.Helper()
	var private *ecdsa.PrivateKey
	if key == nil {
		var err error
		if private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			s.t.Fatal(err)
		}
		key = private.Public()
	}
	parent, signing := s.ca, s.key
	if parent == nil {
		parent, signing = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signing)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	return out, private
}

// ofNode returns the template of a certificate of node-a that expires in an hour.
func ofNode(serial int64, age time.Duration) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "system:node:" + nodeA, Organization: []string{"system:nodes"}},
		NotBefore: time.Now().Add(-age), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// ServeHTTP implements the calls for CertificateSigningRequests, and returns a node for other calls.
func (s *signer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, r.TLS.PeerCertificates[0].SerialNumber.String())
	w.Header().Set("Content-Type", "application/json")
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	switch {
	case r.Method == http.MethodPost && r.URL.Path == path:
		data, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		o, _, err := s.codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			s.t.Errorf("decode the request: %v", err)
			return
		}
		s.request = o.(*certificatesv1.CertificateSigningRequest)
		s.request.Name, s.request.UID = s.request.GenerateName+"0", "uid"
		block, _ := pem.Decode(s.request.Spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			s.t.Errorf("parse the request: %v", err)
			return
		}
		fmt.Fprint(w, runtime.EncodeOrDie(s.codecs.LegacyCodec(certificatesv1.SchemeGroupVersion), s.request))
		s.answer(s.request, parsed)
	case r.URL.Path == path+"/csr-0":
		fmt.Fprint(w, runtime.EncodeOrDie(s.codecs.LegacyCodec(certificatesv1.SchemeGroupVersion), s.request))
	default:
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"node-a"}}`)
	}
}

// joined writes the files of a node that has joined the cluster of a server with kubeadm, with a certificate
// that is due for renewal, and returns the path of the kubeconfig.
func (s *signer) joined(server *httptest.Server) string {
	s.t.Helper()
	dir := s.t.TempDir()
	cert, key := s.sign(nil, ofNode(100, 99*time.Hour))
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	file, link, kubeconfig := filepath.Join(dir, "kubelet-client-2026-01-01-00-00-00.pem"), filepath.Join(dir, "kubelet-client-current.pem"), filepath.Join(dir, "kubelet.conf")
	if err := os.WriteFile(file, append(pemOf("CERTIFICATE", cert.Raw), pemOf("EC PRIVATE KEY", der)...), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		s.t.Fatal(err)
	}
	authority := base64.StdEncoding.EncodeToString(pemOf("CERTIFICATE", server.Certificate().Raw))
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {client-certificate: %s, client-key: %s}}]}`, server.URL, authority, link, link)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return kubeconfig
}

// TestRenewal checks that podrun-node renews its client certificate at an API server, and that the requests
// after the renewal use the new certificate; and that it keeps the old one if it gets none.
func TestRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(*signer, *certificatesv1.CertificateSigningRequest, *x509.CertificateRequest)
		warning string // "" if the certificate is renewed
	}{
		"issued": {answer: func(s *signer, r *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
			cert, _ := s.sign(parsed.PublicKey, ofNode(200, time.Minute))
			r.Status.Certificate = pemOf("CERTIFICATE", cert.Raw)
		}},
		"denied": {func(_ *signer, r *certificatesv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: "True", Reason: "Policy"}}
		}, "Denied: Policy"},
		"wrong key": {func(s *signer, r *certificatesv1.CertificateSigningRequest, _ *x509.CertificateRequest) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
			cert, _ := s.sign(nil, ofNode(200, time.Minute))
			r.Status.Certificate = pemOf("CERTIFICATE", cert.Raw)
		}, "belongs to another key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigner(t)
			s.answer = func(r *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) {
				c.answer(s, r, parsed)
			}
			server := httptest.NewUnstartedServer(s)
			pool := x509.NewCertPool()
			pool.AddCert(s.ca)
			server.EnableHTTP2, server.TLS = true, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
			server.StartTLS()
			defer server.Close()
			kubeconfig := s.joined(server)
			serial := renewal(t, kubeconfig, c.warning)
			s.mu.Lock()
			defer s.mu.Unlock()
			if first, last := s.clients[0], s.clients[len(s.clients)-1]; first != "100" || last != serial {
				t.Errorf("certificates of the clients: %v, want 100 first and %s last", s.clients, serial)
			}
		})
	}
}

// renewal runs a Renewer until it has renewed the certificate of a kubeconfig or, if warning is not empty,
// until it has printed a warning, and then sends a request. It returns the serial number of the certificate
// that the request should use.
func renewal(t *testing.T, kubeconfig, warning string) (serial string) {
	t.Helper()
	warnings := make(chan problem.List, 10)
	_, ofClient, err := newCredentials(kubeconfig, func(l problem.List) { warnings <- l })
	if err != nil {
		t.Fatal(err)
	}
	client, err := newRESTClient(ofClient)
	if err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		if _, err := client.Nodes().Get(t.Context(), nodeA, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	before := linked(t, kubeconfig)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := certificate.Renewer{Kubeconfig: kubeconfig, Node: nodeA, Requests: client.SigningRequests(), Warn: func(l problem.List) { warnings <- l }}
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	if warning != "" {
		if got := <-warnings; len(got) != 1 || !strings.Contains(got[0].String(), warning) || linked(t, kubeconfig) != before {
			t.Errorf("warnings %v, want %q; the link refers to %s, before to %s", got, warning, linked(t, kubeconfig), before)
		}
		read()
		return "100"
	}
	patience.Wait(t, patience.OnFake, "the certificate is renewed", func() bool { return linked(t, kubeconfig) != before })
	read()
	if len(warnings) > 0 {
		t.Errorf("warning %v", <-warnings)
	}
	return "200"
}

// linked returns the file to which the link with the current certificate refers.
func linked(t *testing.T, kubeconfig string) string {
	t.Helper()
	target, err := os.Readlink(filepath.Join(filepath.Dir(kubeconfig), "kubelet-client-current.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return target
}
