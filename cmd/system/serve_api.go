package system

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve"
)

// apiFlags are the flags for the HTTP API of serve.
type apiFlags struct {
	socket, group, listen string
	readOnly              string
	cert, key, clientCA   string
}

func (f *apiFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.socket, "api-socket", defaultSocket, "`path` of the unix socket of the HTTP API, for root only; auto for a socket below /run/podrun, to which <root-dir>/serve/podrun.sock links; an empty value disables the socket")
	set.StringVar(&f.group, "socket-group", "", "`group` that may also use the API socket; access is equivalent to root, because the API exposes logs, environment variables and Secrets of pods")
	set.StringVar(&f.readOnly, "readonly-socket", defaultSocket, "`path` of the unix socket for metrics and status, for root and, if it exists, the group podrun; auto for a socket below /run/podrun-api, to which <root-dir>/serve/readonly.sock links; an empty value disables the socket")
	set.StringVar(&f.listen, "listen", "", "TCP `address` of the HTTP API, for clients with a certificate; requires --tls-cert-file, --tls-private-key-file and --client-ca-file")
	set.StringVar(&f.cert, "tls-cert-file", "", "PEM `file` with the certificate for --listen")
	set.StringVar(&f.key, "tls-private-key-file", "", "PEM `file` with the private key for --listen")
	set.StringVar(&f.clientCA, "client-ca-file", "", "PEM `file` with the certificate authorities for client certificates of --listen")
}

// defaultSocket selects the socket in the root directory.
const defaultSocket = "auto"

// check rejects combinations of flags that contradict each other. joins is true for podrun-node, which
// provides the certificates that the flags do not name.
func (f *apiFlags) check(joins bool) error {
	files := 0
	for _, file := range []string{f.cert, f.key, f.clientCA} {
		if file != "" {
			files++
		}
	}
	switch {
	case joins && (f.cert == "") != (f.key == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file must be used together")
	case f.listen != "" && files < 3 && !joins:
		return problem.UsageError(errors.New("--listen requires --tls-cert-file, --tls-private-key-file and --client-ca-file"),
			"--listen is for clients on other hosts, which must have certificates; on this host, use the unix socket without --listen: 'curl --unix-socket /var/lib/podrun/serve/podrun.sock http://podrun/healthz'")
	case f.listen == "" && files > 0:
		return errors.New("--tls-cert-file, --tls-private-key-file and --client-ca-file require --listen")
	case f.group != "" && f.socket == "":
		return errors.New("--socket-group cannot be used with an empty --api-socket")
	case f.readOnly != "" && f.readOnly != defaultSocket && f.readOnly == f.socket:
		return errors.New("--readonly-socket and --api-socket must be different")
	}
	return nil
}

// options returns the options of the supervisor's API.
func (f *apiFlags) options(settings nodeconfig.Settings) serve.APIOptions {
	o := serve.APIOptions{Socket: serve.APISocket{Path: f.socket, Group: f.group}, Status: serve.APISocket{Path: f.readOnly}, Listen: f.listen}
	layout := settings.Layout()
	if f.readOnly == defaultSocket {
		o.Status.Path, o.Status.Link = layout.StatusSocket(), layout.Serve().StatusLink()
	}
	if f.socket == defaultSocket {
		o.Socket.Path, o.Socket.Link = layout.APISocket(), layout.Serve().APILink()
		if f.group != "" {
			o.Socket.Path = layout.GroupSocket()
		}
	}
	o.TLS.Cert = f.cert
	o.TLS.Key = f.key
	o.TLS.ClientCA = f.clientCA
	return o
}
