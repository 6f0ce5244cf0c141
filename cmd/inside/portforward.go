package inside

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
)

// NewPortForward returns the command port-forward.
func NewPortForward(a *cli.App) *cobra.Command {
	var addresses []string
	c := &cobra.Command{
		Use:   "port-forward NAME [LOCAL:]REMOTE...",
		Short: "Forward ports of this host to a pod",
		Long: `Forward TCP ports of this host to ports of a pod until podrun is interrupted, as
'kubectl port-forward' does. The pod does not need a hostPort, and its process may listen
on localhost only.

REMOTE is a port number, or the name of a port in the pod's spec. LOCAL defaults to
the number of the pod's port; if it is empty (:REMOTE), podrun chooses a free port.
For a Service (svc/web), podrun selects one of its ready pods, and REMOTE is a port
of the Service.

Forwarding continues when the pod's containers or its sandbox are restarted, and
ends when the pod is deleted.`,
		Example: `  podrun port-forward web 8080:80
  podrun port-forward pod/web :http 9090
  podrun port-forward svc/web 8080:80
  podrun port-forward web 5432 --address 0.0.0.0`,
		RunE: func(c *cobra.Command, given []string) error { return runPortForward(a, c, addresses, given) },
	}
	c.Flags().StringSliceVar(&addresses, "address", []string{"localhost"}, "comma-separated `addresses` of this host to listen on: IP addresses or localhost")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not print the addresses")
	return c
}

func runPortForward(a *cli.App, c *cobra.Command, addresses, given []string) error {
	if len(given) > 2 && grammar.IsPodType(given[0]) {
		given = given[1:]
	}
	if len(given) < 2 {
		name := "NAME"
		if len(given) == 1 {
			name = shellword.Quote(given[0])
		}
		return problem.UsageError(errors.New("give a pod name and ports: NAME [LOCAL:]REMOTE"), "use 'podrun port-forward "+name+" 8080:80' to forward port 8080 of this host to port 80 of the pod; run 'podrun describe "+name+"' to show the pod's ports")
	}
	if cli.IsServiceType(given[0]) && len(given) > 2 {
		given = append([]string{"svc/" + given[1]}, given[2:]...)
	}
	service, isService := cli.NamedServices(given[:1])
	var named lookup.Ref
	if !isService {
		var err error
		if named, err = grammar.PodRef(given[0]); err != nil {
			return err
		}
	}
	o := access.ForwardOptions{Addresses: addresses}
	for _, spec := range given[1:] {
		port, err := parseForward(spec)
		if err != nil {
			return problem.UsageError(err, "write LOCAL:REMOTE with numbers from 1 to 65535, or the name of a port, such as 8080:80 or 8080:http")
		}
		o.Ports = append(o.Ports, port)
	}
	for _, address := range addresses {
		if address != "localhost" && net.ParseIP(address) == nil {
			return grammar.Usage(c, fmt.Errorf("--address: %q is neither an IP address nor localhost", address))
		}
	}
	o.Listening = func(local net.Addr, remote int) {
		if a.Quiet {
			return
		}
		fmt.Fprintf(a.Streams.Out, "Forwarding from %s -> %d\n", local, remote)
	}
	o.Failed = func(local net.Addr, remote int, err error) {
		fmt.Fprintf(a.Streams.Err, "podrun: forward from %s to port %d: %s\n", local, remote, view.Indented(err.Error()))
	}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: a.Streams.Err}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	o.Namespace = a.NamespaceOrDefault("default")
	if isService {
		if o.Name, o.Ports, err = servicesync.Target(c.Context(), node, o.Namespace, service[0], o.Ports); err != nil {
			return err
		}
		return access.Forward(c.Context(), node, o)
	}
	refs, err := a.PodsOfIDs(c.Context(), node, []lookup.Ref{named}, cli.AnyID)
	if err != nil {
		return err
	}
	if o.Name, err = refs[0].Resolve(node.Layout(), o.Namespace); err != nil {
		return err
	}
	return access.Forward(c.Context(), node, o)
}

// parseForward parses [LOCAL:]REMOTE. A REMOTE that is not a number is the name of a
// port; LOCAL then defaults to any free port.
func parseForward(spec string) (access.ForwardPort, error) {
	local, remote, both := strings.Cut(spec, ":")
	if !both {
		remote = local
	}
	port := access.ForwardPort{Remote: remote}
	if n, err := strconv.Atoi(remote); err == nil {
		if n < 1 || n > 65535 {
			return port, fmt.Errorf("%s: port %d is not between 1 and 65535", spec, n)
		}
	} else if remote == "" {
		return port, fmt.Errorf("%q: the pod's port is missing", spec)
	} else if !both {
		local = ""
	}
	if local == "" {
		return port, nil
	}
	n, err := strconv.Atoi(local)
	if err != nil || n < 0 || n > 65535 {
		return port, fmt.Errorf("%s: %q is not a port number of this host", spec, local)
	}
	port.Local = n
	return port, nil
}
