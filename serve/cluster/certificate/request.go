package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/podrun/podrun/internal/wait"
)

// Requests are the calls for CertificateSigningRequests.
type Requests interface {
	Create(context.Context, *certificatesv1.CertificateSigningRequest, metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error)
}

// pair is a private key and its certificates; the first one is that of the key, the others are intermediate.
type pair struct {
	certificates []*x509.Certificate
	key          *ecdsa.PrivateKey
}

const (
	// How long podrun waits for a certificate: as long as the kubelet, because a person may have to approve
	// the request.
	longestWait = 15 * time.Minute
	// The interval at which podrun reads the request.
	firstPoll = time.Second
	lastPoll  = 15 * time.Second
	// nodes is the group of nodes.
	nodes = "system:nodes"
)

// request creates a key, and requests its certificate.
func request(ctx context.Context, requests Requests, node string) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName:   user(node),
		Organization: []string{nodes},
	}}, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate request: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, fmt.Errorf("no certificate within %s", longestWait))
	defer cancel()
	created, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			// The third usage of this signer, key encipherment, is for RSA keys.
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a CertificateSigningRequest: %w", err)
	}
	data, err := await(ctx, requests, created)
	if err == nil {
		var out *pair
		if out, err = check(data, key, node, time.Now()); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("CertificateSigningRequest %s: %w", created.Name, err)
}

// await waits until a request has a certificate, and returns the certificate in PEM format.
func await(ctx context.Context, requests Requests, created *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	pending := errors.New("the API server has not answered")
	for poll := firstPoll; ; poll = wait.Next(poll, firstPoll, lastPoll) {
		got, err := requests.Get(ctx, created.Name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), pending)
		case apierrors.IsNotFound(err):
			return nil, errors.New("it was deleted before a certificate was issued")
		case err != nil:
			pending = err
		case got.UID != created.UID:
			return nil, errors.New("it was replaced by another request")
		default:
			data, err := result(got.Status)
			if data != nil || err != nil {
				return data, err
			}
			pending = errors.New("it is not approved or not signed")
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
}

// result returns the certificate of a request. It returns nil if the request has none yet, and an error if it
// will never have one.
func result(s certificatesv1.CertificateSigningRequestStatus) ([]byte, error) {
	approved := false
	for _, c := range s.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return nil, fmt.Errorf("%s: %s: %s", c.Type, c.Reason, c.Message)
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	if !approved || len(s.Certificate) == 0 {
		return nil, nil
	}
	return s.Certificate, nil
}

// check parses an issued certificate, and checks that an API server accepts it as that of the node.
func check(data []byte, key *ecdsa.PrivateKey, node string, now time.Time) (*pair, error) {
	certificates, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("the issued certificate is invalid: %w", err)
	}
	leaf := certificates[0]
	usage := func(u x509.ExtKeyUsage) bool { return u == x509.ExtKeyUsageClientAuth || u == x509.ExtKeyUsageAny }
	switch {
	case !key.PublicKey.Equal(leaf.PublicKey):
		err = errors.New("belongs to another key")
	case leaf.Subject.CommonName != user(node) || !slices.Equal(leaf.Subject.Organization, []string{nodes}):
		err = fmt.Errorf("belongs to %q, and not to the user %s in the group %s", leaf.Subject, user(node), nodes)
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.ContainsFunc(leaf.ExtKeyUsage, usage):
		err = errors.New("is not for clients")
	case now.After(leaf.NotAfter):
		err = fmt.Errorf("expired at %s", date(leaf.NotAfter))
	}
	if err != nil {
		return nil, fmt.Errorf("the issued certificate %w", err)
	}
	return &pair{certificates, key}, nil
}
