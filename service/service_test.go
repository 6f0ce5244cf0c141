package service

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	range4 = netip.MustParsePrefix("10.127.0.0/22")
	range6 = netip.MustParsePrefix("fd00:5::/112")
	dual   = []netip.Prefix{range4, range6}
)

// object returns the Service default/NAME with a selector app=NAME, and ports such as "80:8080",
// "http=80:web/UDP".
func object(name string, ports ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": name}}}
	for _, text := range ports {
		var p corev1.ServicePort
		rest := text
		if before, after, ok := strings.Cut(rest, "="); ok {
			p.Name, rest = before, after
		}
		rest, protocol, _ := strings.Cut(rest, "/")
		p.Protocol = corev1.Protocol(protocol)
		port, target, _ := strings.Cut(rest, ":")
		_, _ = fmt.Sscan(port, &p.Port)
		p.TargetPort = intstr.Parse(target)
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
	return s
}

func with(s *corev1.Service, change func(*corev1.ServiceSpec)) *corev1.Service {
	change(&s.Spec)
	return s
}

// pod returns a ready pod of default with the label app.
func pod(name, app string, ips ...string) Pod {
	p := Pod{Namespace: "default", Name: name, UID: "uid-" + name, Labels: map[string]string{"app": app}, Ready: true}
	for _, ip := range ips {
		p.IPs = append(p.IPs, netip.MustParseAddr(ip))
	}
	return p
}

func assign(t *testing.T, s *corev1.Service, ranges []netip.Prefix) *corev1.Service {
	t.Helper()
	out, err := Assign(s, nil, nil, ranges, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAssign(t *testing.T) {
	policy := func(p corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.IPFamilyPolicy, s.IPFamilies = &p, families }
	}
	for _, tt := range []struct {
		name     string
		service  *corev1.Service
		ranges   []netip.Prefix
		families []corev1.IPFamily
		err      string
	}{
		{"single stack", object("web", "80"), dual, []corev1.IPFamily{"IPv4"}, ""},
		{"IPv6 is requested", with(object("web", "80"), policy("SingleStack", "IPv6")), dual, []corev1.IPFamily{"IPv6"}, ""},
		{"prefer dual", with(object("web", "80"), policy("PreferDualStack")), dual, []corev1.IPFamily{"IPv4", "IPv6"}, ""},
		{"prefer dual, IPv6 first", with(object("web", "80"), policy("PreferDualStack", "IPv6")), dual, []corev1.IPFamily{"IPv6", "IPv4"}, ""},
		{"prefer dual, but only IPv4", with(object("web", "80"), policy("PreferDualStack", "IPv4", "IPv6")), dual[:1], []corev1.IPFamily{"IPv4"}, ""},
		{"require dual, but only IPv4", with(object("web", "80"), policy("RequireDualStack")), dual[:1], nil, "RequireDualStack"},
		{"IPv6, but only IPv4", with(object("web", "80"), policy("SingleStack", "IPv6")), dual[:1], nil, "requests IPv6"},
		{"headless", with(object("web", "80"), func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None"} }), dual, nil, ""},
		{"external name", with(object("web"), func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = "ExternalName", "192.0.2.1" }), dual, nil, ""},
		{"another runtime's network", object("web", "80"), nil, nil, ""},
		{"an address of another cluster", with(object("web", "80"), func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "10.96.0.7", []string{"10.96.0.7"} }), dual, []corev1.IPFamily{"IPv4"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Assign(tt.service, nil, nil, tt.ranges, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var families []corev1.IPFamily
			for _, text := range got.Spec.ClusterIPs {
				if ip, err := netip.ParseAddr(text); err == nil {
					if !range4.Contains(ip) && !range6.Contains(ip) {
						t.Errorf("%s is in no range", ip)
					}
					families = append(families, familyOf(ip))
				}
			}
			if diff := cmp.Diff(tt.families, families); diff != "" {
				t.Error(diff)
			}
			if len(families) > 0 && !slices.Equal(got.Spec.IPFamilies, families) {
				t.Errorf("ipFamilies are %v", got.Spec.IPFamilies)
			}
		})
	}
}

// TestAddressesAreStableAndUnique fills a range: each Service gets a separate address, keeps it when it
// is applied again, and the next one is refused.
func TestAddressesAreStableAndUnique(t *testing.T) {
	small := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/28")}
	var have []*corev1.Service
	seen := map[string]bool{}
	for i := range 14 {
		s, err := Assign(object(fmt.Sprintf("s%d", i), "80"), nil, have, small, nil)
		if err != nil {
			t.Fatal(err)
		}
		ip := s.Spec.ClusterIP
		if seen[ip] || ip == "10.9.0.0" || ip == "10.9.0.15" {
			t.Errorf("s%d has %s", i, ip)
		}
		seen[ip] = true
		have = append(have, s)
	}
	if _, err := Assign(object("more", "80"), nil, have, small, nil); err == nil {
		t.Error("a Service got an address of a full range")
	}
	again, err := Assign(with(object("s3", "81"), func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "10.9.0.1", []string{"10.9.0.1"} }), have[3], slices.Delete(slices.Clone(have), 3, 4), small, nil)
	if err != nil || again.Spec.ClusterIP != have[3].Spec.ClusterIP {
		t.Errorf("%v, %v: the Service does not keep %s", again, err, have[3].Spec.ClusterIP)
	}
}

func TestNodePorts(t *testing.T) {
	nodePort := func(name string, ports ...int32) *corev1.Service {
		s := object(name, "http=80:8080", "admin=81:8081")
		s.Spec.Type = corev1.ServiceTypeNodePort
		for i, p := range ports {
			s.Spec.Ports[i].NodePort = p
		}
		return s
	}
	web := assign(t, nodePort("web", 30080), dual)
	if got := web.Spec.Ports; got[0].NodePort != 30080 || got[1].NodePort < 30000 || got[1].NodePort > 32767 || got[1].NodePort == 30080 {
		t.Errorf("%v", got)
	}
	again, err := Assign(nodePort("web"), web, nil, dual, nil)
	if err != nil || !slices.Equal(NodePorts(again), NodePorts(web)) {
		t.Errorf("%v, %v: the Service does not keep its node ports", again, err)
	}
	if _, err := Assign(nodePort("other", 30080), nil, []*corev1.Service{web}, dual, nil); err == nil || !strings.Contains(err.Error(), "Service default/web uses 30080/TCP") {
		t.Errorf("%v", err)
	}
	for _, port := range []int32{22, 29999, 32768} {
		if _, err := Assign(nodePort("other", port), nil, nil, dual, nil); err == nil {
			t.Errorf("node port %d is accepted", port)
		}
	}
	udp := nodePort("udp", 30080)
	udp.Spec.Ports[0].Protocol = "UDP"
	used := map[NodePort]string{{30080, "TCP"}: "in use by nginx", {30081, "TCP"}: "in use by nginx"}
	if _, err := Assign(nodePort("other", 30081), nil, nil, dual, used); err == nil || !strings.Contains(err.Error(), "spec.ports[0].nodePort: 30081/TCP is in use by nginx") {
		t.Errorf("a port that a process uses: %v", err)
	}
	if kept, err := Assign(nodePort("web"), web, nil, dual, used); err != nil || kept.Spec.Ports[0].NodePort != web.Spec.Ports[0].NodePort {
		t.Errorf("the Service does not keep its port: %v, %v", kept, err)
	}
	free, err := Assign(nodePort("web"), nil, nil, dual, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, err := Assign(nodePort("web"), nil, nil, dual, map[NodePort]string{NodePorts(free)[0]: "in use"})
	if err != nil || next.Spec.Ports[0].NodePort == free.Spec.Ports[0].NodePort {
		t.Errorf("podrun assigns a port that a process uses: %v, %v", next, err)
	}
	if _, err := Assign(udp, nil, []*corev1.Service{web}, dual, nil); err != nil {
		t.Errorf("another protocol: %v", err)
	}
	if balanced := assign(t, with(nodePort("lb"), func(s *corev1.ServiceSpec) { s.Type = "LoadBalancer" }), dual); len(NodePorts(balanced)) != 2 {
		t.Errorf("a load balancer has %v", NodePorts(balanced))
	}
	no := false
	if balanced := assign(t, with(nodePort("lb"), func(s *corev1.ServiceSpec) { s.Type, s.AllocateLoadBalancerNodePorts = "LoadBalancer", &no }), dual); len(NodePorts(balanced)) != 0 {
		t.Errorf("a load balancer without node ports has %v", NodePorts(balanced))
	}
	if requested := assign(t, with(nodePort("lb", 30085), func(s *corev1.ServiceSpec) { s.Type, s.AllocateLoadBalancerNodePorts = "LoadBalancer", &no }), dual); !slices.Equal(NodePorts(requested), []NodePort{{30085, "TCP"}}) {
		t.Errorf("a load balancer with one requested node port has %v", NodePorts(requested))
	}
	dns := assign(t, with(object("dns", "tcp=53", "udp=53/UDP"), func(s *corev1.ServiceSpec) { s.Type = "NodePort" }), dual)
	if dns.Spec.Ports[0].NodePort != dns.Spec.Ports[1].NodePort {
		t.Errorf("the ports of one number, of two protocols, have the node ports %v", NodePorts(dns))
	}
	if foreign := assign(t, nodePort("web", 30080), nil); len(NodePorts(foreign)) != 0 {
		t.Errorf("on another runtime's network: %v", NodePorts(foreign))
	}
}

// TestHealthCheckNodePort checks the port that the API allocates for a load balancer with local endpoints
// (allocHealthCheckNodePort in registry/core/service/storage).
func TestHealthCheckNodePort(t *testing.T) {
	local := func(name string, port int32) *corev1.Service {
		return with(object(name, "http=80"), func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy, s.HealthCheckNodePort = "LoadBalancer", "Local", port
		})
	}
	web := assign(t, local("web", 0), dual)
	port := web.Spec.HealthCheckNodePort
	if port < firstNodePort || port > lastNodePort || port == web.Spec.Ports[0].NodePort {
		t.Fatalf("healthCheckNodePort %d, node ports %v", port, NodePorts(web))
	}
	again, err := Assign(local("web", 0), web, nil, dual, map[NodePort]string{{port, "TCP"}: "in use by nginx"})
	if err != nil || !slices.Equal(NodePorts(again), NodePorts(web)) {
		t.Errorf("%v, %v: the Service does not keep its ports", again, err)
	}
	if moved := assign(t, local("web", 31000), dual); moved.Spec.HealthCheckNodePort != 31000 {
		t.Errorf("the requested port became %d", moved.Spec.HealthCheckNodePort)
	}
	for name, tt := range map[string]struct {
		service *corev1.Service
		used    map[NodePort]string
		err     string
	}{
		"a port of another Service":            {local("other", port), nil, fmt.Sprintf("spec.healthCheckNodePort: Service default/web uses %d/TCP", port)},
		"a node port of the Service":           {with(local("other", 31000), func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 31000 }), nil, "spec.healthCheckNodePort: Service default/other uses 31000/TCP"},
		"a port of a process":                  {local("other", 31000), map[NodePort]string{{31000, "TCP"}: "in use by nginx"}, "spec.healthCheckNodePort: 31000/TCP is in use by nginx"},
		"a port outside the range":             {local("other", 8080), nil, "spec.healthCheckNodePort: 8080 is not in the range 30000-32767"},
		"a node port that is another's health": {with(local("other", 0), func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = port }), nil, fmt.Sprintf("spec.ports[0].nodePort: Service default/web uses %d/TCP", port)},
	} {
		if _, err := Assign(tt.service, nil, []*corev1.Service{web}, dual, tt.used); err == nil || err.Error() != tt.err {
			t.Errorf("%s: %v, want %s", name, err, tt.err)
		}
	}
	cluster := with(local("web", 0), func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Cluster" })
	if got, err := Assign(cluster, web, nil, dual, nil); err != nil || got.Spec.HealthCheckNodePort != 0 || got.Spec.Ports[0].NodePort != web.Spec.Ports[0].NodePort {
		t.Errorf("after a change to Cluster: %v, %v", got, err)
	}
	if foreign := assign(t, local("web", 31000), nil); len(NodePorts(foreign)) != 0 {
		t.Errorf("on another runtime's network: %v", NodePorts(foreign))
	}
	if notes := Notes(web); len(notes) != 1 || !strings.Contains(notes[0], "healthCheckNodePort") {
		t.Errorf("notes %q", notes)
	}
}

func TestEndpoints(t *testing.T) {
	named := pod("named", "web", "10.64.0.5")
	named.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 9000, Protocol: "TCP"}, {Name: "http", ContainerPort: 9001, Protocol: "UDP"}}
	late := pod("late", "web", "10.64.0.6")
	late.Ready = false
	ending := pod("ending", "web", "10.64.0.7")
	ending.Terminating = true
	dead := pod("dead", "web", "10.64.0.10")
	dead.Ready, dead.Terminating = false, true
	elsewhere := pod("elsewhere", "web", "10.64.0.8")
	elsewhere.Namespace = "other"
	both := pod("both", "web", "fd00:1::9", "10.64.0.9")
	for _, tt := range []struct {
		name    string
		service *corev1.Service
		pods    []Pod
		want    string
	}{
		{"ready pods", object("web", "80:8080"), []Pod{named, late, ending, elsewhere, both, pod("db", "db", "10.64.0.1")}, "10.64.0.5:8080 10.64.0.9:8080"},
		{"only terminating pods", object("web", "80"), []Pod{late, ending}, "10.64.0.7:80"},
		{"a terminating pod that does not serve", object("web", "80"), []Pod{late, dead}, ""},
		{"targetPort defaults to port", object("web", "80"), []Pod{named}, "10.64.0.5:80"},
		{"named port", object("web", "80:http"), []Pod{named, both}, "10.64.0.5:9000"},
		{"named UDP port", object("web", "80:http/UDP"), []Pod{named}, "10.64.0.5:9001"},
		{"publishNotReadyAddresses", with(object("web", "80"), func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }), []Pod{late, ending}, "10.64.0.6:80 10.64.0.7:80"},
		{"no address yet", object("web", "80"), []Pod{pod("new", "web")}, ""},
		{"no selector", with(object("web", "80"), func(s *corev1.ServiceSpec) { s.Selector = nil }), []Pod{named}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable("b", dual, nil, []*corev1.Service{assign(t, tt.service, dual)}, tt.pods)
			if len(table.Ports) != 1 {
				t.Fatalf("%+v", table)
			}
			var got []string
			for _, e := range table.Ports[0].Endpoints {
				got = append(got, e.String())
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	timeout := int32(60)
	prefer := corev1.IPFamilyPolicyPreferDualStack
	web := with(object("web", "80:8080", "80:8080/UDP"), func(s *corev1.ServiceSpec) {
		s.IPFamilyPolicy, s.SessionAffinity = &prefer, corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	})
	headless := with(object("db", "5432"), func(s *corev1.ServiceSpec) { s.ClusterIP = "None" })
	pods := []Pod{pod("b", "web", "10.64.0.3", "fd00:1::3"), pod("a", "web", "10.64.0.2", "fd00:1::2"), pod("db", "db", "10.64.0.4")}
	services := []*corev1.Service{assign(t, web, dual), assign(t, headless, dual)}
	table := NewTable("b", dual, nil, services, pods)
	var got []string
	for _, p := range table.Ports {
		got = append(got, fmt.Sprint(p.Service, p.Address.Is4(), p.Protocol, p.Port, p.Affinity, p.Endpoints))
	}
	want := []string{
		"default/webtruetcp8060[10.64.0.2:8080 10.64.0.3:8080]", "default/webtrueudp8060[10.64.0.2:8080 10.64.0.3:8080]",
		"default/webfalsetcp8060[[fd00:1::2]:8080 [fd00:1::3]:8080]", "default/webfalseudp8060[[fd00:1::2]:8080 [fd00:1::3]:8080]",
	}
	for i := range want {
		want[i] = strings.NewReplacer("true", " true ", "false", " false ").Replace(want[i])
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	slices.Reverse(services)
	slices.Reverse(pods)
	a, _ := table.JSON()
	b, _ := NewTable("b", dual, nil, services, pods).JSON()
	if string(a) != string(b) {
		t.Errorf("the order of the input changes the table:\n%s\n%s", a, b)
	}
	if text := string(a); !strings.Contains(text, `"affinity":60`) || !strings.Contains(text, `"protocol":"udp"`) || strings.Contains(text, "5432") {
		t.Errorf("%s", a)
	}
}

func TestNames(t *testing.T) {
	headless := with(object("db", "5432"), func(s *corev1.ServiceSpec) { s.ClusterIP = "None" })
	external := with(object("out"), func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = "ExternalName", "192.0.2.1" })
	alias := with(object("alias"), func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = "ExternalName", "example.com" })
	first := pod("db-0", "db", "10.64.0.2")
	first.Hostname, first.Subdomain = "db-0", "db"
	pods := []Pod{first, pod("db-1", "db", "10.64.0.3"), pod("web", "web", "10.64.0.4")}
	virtual := assign(t, object("web", "80"), dual)
	names, _ := Names([]*corev1.Service{virtual, headless, external, alias}, pods)
	const base = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.64.0.4\tweb\n"
	vip := virtual.Spec.ClusterIP
	want := base + HostsMark +
		"10.64.0.2\tdb.default.svc.cluster.local\tdb.default.svc\tdb.default\tdb\n" +
		"10.64.0.3\tdb.default.svc.cluster.local\tdb.default.svc\tdb.default\tdb\n" +
		"10.64.0.2\tdb-0.db.default.svc.cluster.local\tdb-0.db.default.svc\tdb-0.db.default\tdb-0.db\n" +
		"192.0.2.1\tout.default.svc.cluster.local\tout.default.svc\tout.default\tout\n" +
		vip + "\tweb.default.svc.cluster.local\tweb.default.svc\tweb.default\n"
	got := base + Section(base, "default", "cluster.local", names)
	if sortedLines(got) != sortedLines(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if text := Section(base, "other", "", names); !strings.Contains(text, "\tdb.default.svc\tdb.default\n") || strings.Contains(text, "cluster.local") {
		t.Errorf("another namespace: %s", text)
	}
	if text := Section(base, "default", "cluster.local", nil); text != "" {
		t.Errorf("without Services: %s", text)
	}
	if text := Section("127.0.0.1 localhost OUT\n", "default", "", names); strings.Contains(text, "\tout\n") {
		t.Errorf("a name of the file is defined again: %s", text)
	}
	foreign := assign(t, object("web", "80"), nil)
	if got, _ := Names([]*corev1.Service{foreign}, pods); len(got) != 1 || got[0].IP.String() != "10.64.0.4" {
		t.Errorf("on another runtime's network: %v", got)
	}
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestUnforwarded(t *testing.T) {
	named := pod("web", "web", "10.64.0.2")
	named.Ports = []corev1.ContainerPort{{Name: "same", ContainerPort: 80}, {Name: "other", ContainerPort: 8080}}
	s := object("web", "80", "80:80", "80:8080", "80:same", "80:other", "443:missing")
	got := Unforwarded(s, []Pod{named})
	if want := []string{"80/TCP (targetPort 8080)", "80/TCP (targetPort 8080)"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Unforwarded(s, nil); len(got) != 4 {
		t.Errorf("without pods: %q", got)
	}
	if got := Unforwarded(with(s, func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }), []Pod{named}); len(got) > 0 {
		t.Errorf("headless: %q", got)
	}
}

func TestSlices(t *testing.T) {
	late := pod("b", "web", "10.64.0.3")
	late.Ready = false
	s := assign(t, object("web", "http=80:8080"), dual)
	got := Slices(s, []Pod{late, pod("a", "web", "10.64.0.2", "fd00:1::2"), pod("db", "db", "10.64.0.4")}, "node1")
	if len(got) != 1 || got[0].Name != "web-ipv4" || got[0].AddressType != "IPv4" || len(got[0].Endpoints) != 2 || *got[0].Ports[0].Port != 8080 {
		t.Fatalf("%+v", got)
	}
	a, b := got[0].Endpoints[0], got[0].Endpoints[1]
	if !*a.Conditions.Ready || *b.Conditions.Ready || a.TargetRef.Name != "a" || b.Addresses[0] != "10.64.0.3" {
		t.Errorf("%+v", got[0].Endpoints)
	}
}

func TestNotes(t *testing.T) {
	if got := Notes(object("web", "80")); len(got) > 0 {
		t.Errorf("%q", got)
	}
	got := Notes(with(object("web", "80"), func(s *corev1.ServiceSpec) {
		s.Selector, s.ExternalIPs, s.LoadBalancerSourceRanges = nil, []string{"192.0.2.1"}, []string{"192.0.2.0/24"}
	}))
	if len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got := Notes(with(object("out"), func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = "ExternalName", "example.com" })); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestIsTopLevelDomain(t *testing.T) {
	for name, want := range map[string]bool{
		"com": true, "dev": true, "de": true, "internal": true, "local": true, "xn--p1ai": true, "ck": true, // *.ck in the list
		"default": false, "kube-system": false, "example": false, "commerce": false, "": false,
	} {
		if got := IsTopLevelDomain(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// TestOmitted checks that a Service that exceeds a limit of the network does not affect the others. podrun-net
// refuses a table that exceeds a limit, so one Service of 4,001 ports stopped the synchronization of all.
// TestNamesAreLimited covers the author of many headless Services: only these lose their names.
func TestNamesAreLimited(t *testing.T) {
	headless := func(name, app string, age time.Duration) *corev1.Service {
		s := with(object(name), func(s *corev1.ServiceSpec) { s.ClusterIP, s.Selector = "None", map[string]string{"app": app} })
		s.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0).Add(-age))
		return s
	}
	pods := []Pod{pod("db-0", "db", "10.65.0.1")}
	for i := range maxNamesOfOne + 1 {
		pods = append(pods, pod(fmt.Sprint("many", i), "many", fmt.Sprintf("10.64.%d.%d", i/250, i%250+1)))
		if i < 8 {
			pods = append(pods, pod(fmt.Sprint("few", i), "few", fmt.Sprintf("10.66.0.%d", i+1)))
		}
	}
	services := []*corev1.Service{headless("db", "db", time.Hour), headless("large", "many", 2*time.Hour)}
	for i := range 950 {
		services = append(services, headless(fmt.Sprintf("flood-%03d", i), "few", time.Minute))
	}
	services = append(services, headless("young", "db", 0))
	names, omitted := Names(services, pods)
	has := func(name string) bool { return slices.ContainsFunc(names, func(n Name) bool { return n.Name == name }) }
	if !has("db") || !has("young") || has("large") || !has("flood-000") || has("flood-949") || len(names) > maxNames {
		t.Errorf("%d names, %d omitted", len(names), len(omitted))
	}
	if why := omitted["default/large"]; !strings.Contains(why, "has 501 names and addresses") {
		t.Errorf("large: %s", why)
	}
	if why := omitted["default/flood-949"]; !strings.Contains(why, "older Services have") {
		t.Errorf("flood-949: %s", why)
	}
}

func TestOmitted(t *testing.T) {
	many := func(name string, n int, age time.Duration) *corev1.Service {
		s := assign(t, object(name), dual)
		s.Spec.Ports = nil
		for i := range n {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: int32(i + 1), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)})
		}
		s.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0).Add(-age))
		return s
	}
	twice := many("twice", 2, 0)
	twice.Spec.Ports[1] = twice.Spec.Ports[0]
	headless := many("headless", 5000, 0)
	headless.Spec.ClusterIP, headless.Spec.ClusterIPs = "None", []string{"None"}
	var pods []Pod
	for i := range 11 {
		pods = append(pods, pod(fmt.Sprint("old", i), "old", fmt.Sprint("10.64.0.", i+2)))
	}
	for _, tt := range []struct {
		name     string
		services []*corev1.Service
		pods     []Pod
		want     string // the omitted Services
		reason   string
	}{
		{"one with too many ports", []*corev1.Service{many("a", 4001, time.Hour), many("b", 2, 0)}, nil, "[default/a]", "has 4001 ports at its virtual IPs, but a Service may have at most 1000"},
		{"a port twice", []*corev1.Service{twice, many("b", 2, 0)}, nil, "[default/twice]", "has a port twice"},
		{"many Services", []*corev1.Service{many("a", 1000, 1), many("b", 1000, 2), many("c", 1000, 3), many("d", 999, 4), many("e", 1, 5), many("young", 1, 0)}, nil,
			"[default/young]", "has 1 ports at its virtual IPs, but older Services have 4000 of the 4000 ports"},
		{"the smaller one fits", []*corev1.Service{many("a", 1000, 1), many("b", 1000, 2), many("c", 1000, 3), many("d", 1000, -1), many("e", 999, 5)}, nil, "[default/d]", "older Services have 3999"},
		{"endpoints", []*corev1.Service{many("old", 900, time.Hour), many("other", 10, 0), many("more", 1000, -1)}, append(slices.Clone(pods), pod("m", "more", "10.64.1.1")),
			"[default/more]", "has 1000 endpoints of its ports, but older Services have 9900 of the 10000 endpoints"},
		{"headless Services have no ports", []*corev1.Service{headless}, nil, "[]", ""},
	} {
		omitted := Omitted(tt.services, tt.pods)
		keys := slices.Sorted(maps.Keys(omitted))
		if got := fmt.Sprint(keys); got != tt.want || len(keys) > 0 && !strings.HasPrefix(omitted[keys[0]], tt.reason) && !strings.Contains(omitted[keys[0]], tt.reason) {
			t.Errorf("%s: %v, want %s, %q", tt.name, omitted, tt.want, tt.reason)
		}
		table := NewTable("podrun0", dual, nil, tt.services, tt.pods)
		if len(table.Ports) > maxPorts {
			t.Errorf("%s: the table has %d ports", tt.name, len(table.Ports))
		}
		for _, s := range tt.services {
			_, omit := omitted[Key(s)]
			if in := slices.ContainsFunc(table.Ports, func(p Port) bool { return p.Service == Key(s) }); in == (omit || IsHeadless(s)) {
				t.Errorf("%s: Service %s in the table: %v", tt.name, s.Name, in)
			}
		}
	}
	large := many("large", 1, 0)
	large.Annotations = map[string]string{"a": strings.Repeat("x", maxObject)}
	if err := CheckSize(large); err == nil || CheckLimits(large) == nil {
		t.Error("a Service whose record cannot be read is not refused")
	}
}

// TestUnserved: a Service is unserved if it selects pods, and none of them is ready.
func TestUnserved(t *testing.T) {
	labels := map[string]string{"app": "web"}
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels}}
	pod := Pod{Namespace: "shop", Name: "web", Labels: labels, IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	ready, ending, other := pod, pod, pod
	ready.Ready, ending.Ready, ending.Terminating, other.Ready, other.Labels = true, true, true, true, nil
	all := []*corev1.Service{web, {Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}}
	for _, c := range []struct {
		pods []Pod
		want int
	}{{nil, 1}, {[]Pod{pod, other}, 1}, {[]Pod{pod, ready}, 0}, {[]Pod{ending}, 0}} {
		if got := Unserved(all, c.pods); len(got) != c.want {
			t.Errorf("%v: %v", c.pods, got)
		}
	}
}
