// Registryd is a registry for a guest. It serves https for one host name, with a certificate that it creates, and keeps its
// content in memory.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	host := flag.String("host", "localhost", "`name` in the certificate")
	address := flag.String("listen", "127.0.0.1:443", "`address` to listen on")
	file := flag.String("certificate", "", "`file` to which the certificate is written when the registry listens")
	flag.Parse()
	if err := serve(*host, *address, *file); err != nil {
		fmt.Fprintln(os.Stderr, "registryd:", err)
		os.Exit(1)
	}
}

func serve(host, address, file string) error {
	certificate, err := newCertificate(host)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o644)
	}
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:   registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	return server.ServeTLS(l, "", "")
}

// newCertificate returns a certificate that is its own authority.
func newCertificate(host string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	// The clock of a guest may change.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	data, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{data}, PrivateKey: key}, err
}
