package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve"
)

// Joiner implements cmd.Joiner.
type Joiner struct {
	version    string
	kubeconfig string
}

// NewJoiner returns the joiner of podrun-node. It discards the log of client-go: podrun itself
// reports the problems that concern users.
func NewJoiner(version string) *Joiner {
	klog.SetLogger(logr.Discard())
	return &Joiner{version: version}
}

// AddFlags implements cmd.Joiner.
func (j *Joiner) AddFlags(set *pflag.FlagSet) {
	set.StringVar(&j.kubeconfig, "kubeconfig", "", "`file` with the address of the API server and this node's credentials, such as /etc/kubernetes/kubelet.conf")
}

// The kubelet's limits on requests to the API server (kubeAPIQPS, kubeAPIBurst).
const (
	requestsPerSecond = 50
	requestBurst      = 100
)

// Join implements cmd.Joiner.
func (j *Joiner) Join(ctx context.Context, s nodeconfig.Settings, warn func(problem.List), api *serve.APIOptions) (serve.Cluster, error) {
	failed := func(err error, hint string) (serve.Cluster, error) {
		return nil, &problem.Error{Kind: problem.Usage, Object: "--kubeconfig " + j.kubeconfig, Err: err, Hint: hint}
	}
	if j.kubeconfig == "" {
		return nil, &problem.Error{Kind: problem.Usage, Err: errors.New("--kubeconfig is required"),
			Hint: "name a kubelet's kubeconfig: kubeadm writes /etc/kubernetes/kubelet.conf, and k3s /var/lib/rancher/k3s/agent/kubelet.kubeconfig"}
	}
	config, ofClient, err := newCredentials(j.kubeconfig, warn)
	if err != nil {
		return failed(err, "")
	}
	ofClient.UserAgent = "podrun-node/" + j.version
	client, err := newRESTClient(ofClient)
	if err != nil {
		return failed(err, "")
	}
	name, err := nodeName(s)
	if err != nil {
		return nil, err
	}
	o := Options{Client: client, NodeName: name, Kubeconfig: j.kubeconfig, Server: config.Host, Taints: s.RegisterWithTaints, Warn: warn}
	if api.Listen != "" {
		if o.Port, err = portOf(api.Listen); err == nil {
			err = serving(s.Layout(), name, config, api)
		}
		if err != nil {
			return nil, &problem.Error{Kind: problem.Usage, Object: "--listen " + api.Listen, Err: err}
		}
	}
	return New(o), nil
}

// nodeName returns the name of this node, which is the same as in podrun's facts.
func nodeName(s nodeconfig.Settings) (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host name: %w", err)
	}
	return discover.NodeName(name, s.HostnameOverride), nil
}

func portOf(address string) (int32, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return int32(n), err
}

// serving sets the files of the HTTPS API that the user did not specify: a self-signed certificate,
// and the CA in the kubeconfig.
func serving(layout identity.Layout, name string, config *rest.Config, api *serve.APIOptions) error {
	dir := filepath.Join(string(layout.Serve()), "node")
	if err := store.MakeStateDir(dir); err != nil {
		return err
	}
	if api.TLS.ClientCA == "" {
		if api.TLS.ClientCA = config.CAFile; config.CAFile == "" {
			if len(config.CAData) == 0 {
				return errors.New("the kubeconfig has no certificate authority: set --client-ca-file to the CA of the API server's client certificate")
			}
			api.TLS.ClientCA = filepath.Join(dir, "client-ca.crt")
			if err := hostfile.Write(api.TLS.ClientCA, config.CAData, 0o600); err != nil {
				return err
			}
		}
	}
	if api.TLS.Cert != "" {
		return nil
	}
	api.TLS.Cert = filepath.Join(dir, "tls.crt")
	api.TLS.Key = filepath.Join(dir, "tls.key")
	if usable(api.TLS.Cert, api.TLS.Key, name, time.Now()) {
		return nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		return fmt.Errorf("generate a certificate: %w", err)
	}
	return errors.Join(hostfile.Write(api.TLS.Key, key, 0o600), hostfile.Write(api.TLS.Cert, cert, 0o600))
}

// usable reports whether a certificate is for this node and valid for another month.
func usable(cert, key, name string, now time.Time) bool {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return false
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	return err == nil && leaf.VerifyHostname(name) == nil && leaf.NotAfter.After(now.AddDate(0, 1, 0))
}
