package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// writeCredentials writes the CA if it does not exist, the certificates that it signs, the key
// of service account tokens, and the kubeconfigs.
func writeCredentials(c config) error {
	ca, err := loadAuthority(c)
	if err != nil {
		return err
	}
	server := template("kube-apiserver", "")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 97, 0, 1)}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for name, certificate := range map[string]*x509.Certificate{
		"apiserver.pem":      server,
		"kubelet-client.pem": template("kube-apiserver-kubelet-client", "system:masters"),
		"admin.pem":          template("admin", "system:masters"),
	} {
		if err := ca.issue(c.file(name), certificate); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := ca.issueToNode(c); err != nil {
		return fmt.Errorf("certificate of node %s: %w", c.node, err)
	}
	if err := writeTokenKey(c.file("service-accounts.pem")); err != nil {
		return err
	}
	if err := writeKubeconfig(c, "admin.kubeconfig", "admin", c.file("admin.pem")); err != nil {
		return err
	}
	return writeKubeconfig(c, "node.kubeconfig", "system:node:"+c.node, c.file("kubelet-client-current.pem"))
}

// template returns a client certificate of a user in a group.
func template(user, group string) *x509.Certificate {
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	return &x509.Certificate{
		Subject: subject, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// loadAuthority reads ca.pem, or creates it and ca.crt.
func loadAuthority(c config) (*authority, error) {
	bundle, err := os.ReadFile(c.file("ca.pem"))
	if errors.Is(err, fs.ErrNotExist) {
		return newAuthority(c)
	}
	if err != nil {
		return nil, err
	}
	certificate, rest := pem.Decode(bundle)
	key, _ := pem.Decode(rest)
	if certificate == nil || key == nil {
		return nil, fmt.Errorf("%s is not a certificate and a key", c.file("ca.pem"))
	}
	var ca authority
	if ca.certificate, err = x509.ParseCertificate(certificate.Bytes); err != nil {
		return nil, err
	}
	if ca.key, err = x509.ParseECPrivateKey(key.Bytes); err != nil {
		return nil, err
	}
	return &ca, nil
}

func newAuthority(c config) (*authority, error) {
	certificate := template("podrun-conformance", "")
	certificate.IsCA, certificate.BasicConstraintsValid = true, true
	certificate.KeyUsage |= x509.KeyUsageCertSign
	certificate.ExtKeyUsage = nil
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &authority{certificate: certificate, key: key}
	bundle, err := ca.sign(certificate, key)
	if err != nil {
		return nil, err
	}
	encoded, rest := pem.Decode(bundle)
	if ca.certificate, err = x509.ParseCertificate(encoded.Bytes); err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.file("ca.crt"), bundle[:len(bundle)-len(rest)], 0o644); err != nil {
		return nil, err
	}
	return ca, os.WriteFile(c.file("ca.pem"), bundle, 0o600)
}

// issue writes a new key and its certificate to one file. It replaces the file atomically, because
// a node may be reading it.
func (ca *authority) issue(path string, certificate *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	bundle, err := ca.sign(certificate, key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", bundle, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// issueToNode writes the certificate of the node and its key to a file, and the link to this file, as kubeadm and
// the kubelet do.
func (ca *authority) issueToNode(c config) error {
	certificate := template("system:node:"+c.node, "system:nodes")
	certificate.NotAfter = certificate.NotBefore.Add(c.nodeValidity)
	name := c.file("kubelet-client-" + time.Now().Format("2006-01-02-15-04-05") + ".pem")
	if err := ca.issue(name, certificate); err != nil {
		return err
	}
	link := c.file("kubelet-client-current.pem")
	if err := os.Symlink(name, link+".new"); err != nil {
		return err
	}
	return os.Rename(link+".new", link)
}

// sign signs the certificate of a key, and returns the certificate and the key in PEM format.
func (ca *authority) sign(certificate *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	certificate.SerialNumber = serial
	signed, err := x509.CreateCertificate(rand.Reader, certificate, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...), nil
}

// writeTokenKey writes the key that signs the tokens of service accounts. Like the CA, the key is
// kept when the cluster is restarted.
func writeTokenKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600)
}

// writeKubeconfig writes a kubeconfig whose certificate and key are in one file.
func writeKubeconfig(c config, name, user, certificate string) error {
	ca, err := os.ReadFile(c.file("ca.crt"))
	if err != nil {
		return err
	}
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters["conformance"] = &api.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", c.port), CertificateAuthorityData: ca}
	kubeconfig.AuthInfos[user] = &api.AuthInfo{ClientCertificate: certificate, ClientKey: certificate}
	kubeconfig.Contexts["conformance"] = &api.Context{Cluster: "conformance", AuthInfo: user}
	kubeconfig.CurrentContext = "conformance"
	return clientcmd.WriteToFile(*kubeconfig, c.file(name))
}
