// Dns answers the queries of pods for the names of Services, as the DNS server of a cluster does:
//
//	dns -kubeconfig FILE -listen 10.97.0.10:53 [-domain cluster.local]
//
// It prints "ready" when it has read all Services. It answers address (A) queries over UDP: the virtual IP of a
// Service, the ready endpoints of a headless Service, the name of an ExternalName Service. Other record types have no
// data, and names outside the cluster do not exist.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/net/dns/dnsmessage"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` of an administrator of the cluster")
	listen := flag.String("listen", "10.97.0.10:53", "`address` of the server")
	domain := flag.String("domain", "cluster.local", "`domain` of the cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *listen, *domain); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "dns:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, listen, domain string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	names := names{
		suffix:    ".svc." + domain + ".",
		services:  factory.Core().V1().Services().Lister(),
		endpoints: factory.Discovery().V1().EndpointSlices().Lister(),
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	conn, err := net.ListenPacket("udp", listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	fmt.Println("ready")
	buffer := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		answer, err := names.answer(buffer[:n])
		if err == nil {
			_, err = conn.WriteTo(answer, from)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "dns: query from %s: %v\n", from, err)
		}
	}
}

// names resolves the names of Services.
type names struct {
	suffix    string // of all names of Services, with both dots
	services  corelisters.ServiceLister
	endpoints discoverylisters.EndpointSliceLister
}

// answer returns the response to a query of one question.
func (n names) answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, fmt.Errorf("it has %d questions", len(m.Questions))
	}
	question := m.Questions[0]
	m.Response, m.Authoritative, m.RecursionAvailable = true, true, true
	m.Additionals = nil
	header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1}
	addresses, alias, found := n.lookup(strings.ToLower(question.Name.String()))
	switch {
	case !found:
		m.RCode = dnsmessage.RCodeNameError
	case alias != "":
		name, err := dnsmessage.NewName(strings.TrimSuffix(alias, ".") + ".")
		if err != nil {
			return nil, err
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: name}})
		addresses, _, _ = n.lookup(name.String())
		header.Name = name
	}
	if question.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			if address.Is4() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
			}
		}
	}
	return m.Pack()
}

// lookup returns the addresses of the Service with a name, or the name for which an ExternalName Service is an
// alias.
func (n names) lookup(name string) (addresses []netip.Addr, alias string, found bool) {
	rest, ok := strings.CutSuffix(name, n.suffix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return nil, "", false
	}
	host, service, namespace := "", parts[len(parts)-2], parts[len(parts)-1]
	if len(parts) == 3 {
		host = parts[0]
	}
	s, err := n.services.Services(namespace).Get(service)
	if err != nil {
		return nil, "", false
	}
	switch {
	case s.Spec.Type == v1.ServiceTypeExternalName:
		return nil, s.Spec.ExternalName, host == ""
	case s.Spec.ClusterIP != v1.ClusterIPNone && host == "":
		return parsed(s.Spec.ClusterIPs), "", true
	}
	slices, err := n.endpoints.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: service}))
	if err != nil {
		return nil, "", false
	}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if ready && (host == "" || e.Hostname != nil && *e.Hostname == host) {
				addresses = append(addresses, parsed(e.Addresses)...)
			}
		}
	}
	return addresses, "", host == "" || len(addresses) > 0
}

// parsed ignores what is not an address, such as an empty virtual IP.
func parsed(texts []string) (out []netip.Addr) {
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, address)
		}
	}
	return out
}
