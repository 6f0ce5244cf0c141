package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/podrun/podrun/internal/hostfile"
)

// largestFile is the maximum size of a file with certificates.
const largestFile = 1 << 20

// readCredentials reads the client certificate of a kubeconfig.
func readCredentials(ctx context.Context, kubeconfig string) (Credentials, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return Credentials{}, err
	}
	var c Credentials
	data := config.CertData
	if len(data) == 0 { // as in client-go, data has precedence
		if config.CertFile == "" {
			return c, nil
		}
		c.CertFile = filepath.Clean(config.CertFile)
		c.KeyFile = filepath.Clean(config.KeyFile)
		info, err := os.Lstat(c.CertFile)
		if err != nil {
			return c, err
		}
		c.Link = info.Mode().Type() == fs.ModeSymlink
		if data, err = hostfile.Read(ctx, c.CertFile, largestFile); err != nil {
			return c, err
		}
	}
	certificates, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return c, fmt.Errorf("the client certificate is invalid: %w", err)
	}
	c.Leaf = certificates[0]
	return c, nil
}

// store writes a certificate and its key to a new file, as the kubelet does, and makes link refer to it. A
// reader of link sees either the old file or the complete new file, also after a crash of the host. Old files
// remain.
func (p *pair) store(link string, now time.Time) error {
	data, err := p.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(link), "kubelet-client-"+now.Format("2006-01-02-15-04-05")+".pem")
	if err := hostfile.Write(path, data, 0o600); err != nil {
		return err
	}
	return replaceLink(link, path)
}

// encode returns the certificates and the key in PEM format, in the order of the kubelet.
func (p *pair) encode() ([]byte, error) {
	key, err := x509.MarshalECPrivateKey(p.key)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, c := range p.certificates {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})...)
	// The check is the one of every reader of the file.
	_, err = tls.X509KeyPair(out, out)
	return out, err
}

// replaceLink makes a link refer to target. It uses the kubelet's name of the temporary link: if podrun is
// killed, either program removes the leftover at the next renewal.
func replaceLink(link, target string) error {
	temporary := filepath.Join(filepath.Dir(link), "kubelet-client-updated.pem")
	for _, path := range []string{link, temporary} {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Type() != fs.ModeSymlink {
			return fmt.Errorf("replace %s: %s is not a symbolic link", link, path)
		}
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, link); err != nil {
		return err
	}
	return hostfile.SyncDir(filepath.Dir(link))
}
