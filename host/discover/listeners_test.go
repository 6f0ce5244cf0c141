package discover

import (
	"net"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// Sockets of this very process must be found, with their owner.
func TestListeners(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	v6, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer v6.Close()
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	owner := func(p corev1.Protocol, ip string, port int) host.Listener {
		return host.Listener{Protocol: p, IP: ip, Port: int32(port), PID: os.Getpid(), Process: string(comm[:len(comm)-1])}
	}
	want := []host.Listener{
		owner(corev1.ProtocolTCP, "127.0.0.1", tcp.Addr().(*net.TCPAddr).Port),
		owner(corev1.ProtocolUDP, "127.0.0.1", udp.LocalAddr().(*net.UDPAddr).Port),
		owner(corev1.ProtocolTCP, "::1", v6.Addr().(*net.TCPAddr).Port),
	}
	var ports []host.HostPort
	for _, w := range want {
		ports = append(ports, host.HostPort{Protocol: w.Protocol, Port: w.Port})
	}
	got, err := machine{root: "/"}.readListeners(ports)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%+v is not among %+v", w, got)
		}
	}
}

// :: takes IPv4 too, unless the socket says otherwise.
func TestListenerV6Only(t *testing.T) {
	for network, want := range map[string]bool{"tcp": false, "tcp6": true} {
		l, err := net.Listen(network, "[::]:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		sockets, err := diagSockets()
		if err != nil {
			t.Fatal(err)
		}
		port := int32(l.Addr().(*net.TCPAddr).Port)
		i := slices.IndexFunc(sockets, func(s socket) bool { return s.Port == port && s.Protocol == corev1.ProtocolTCP })
		if i < 0 || sockets[i].V6Only != want || sockets[i].IP != "::" {
			t.Errorf("%s: %d of %+v, want V6Only %v", network, i, sockets, want)
		}
	}
}

// The two readers must agree.
func TestProcSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := int32(l.Addr().(*net.TCPAddr).Port)
	find := func(list []socket, err error) socket {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(s socket) bool { return s.Port == port })
		if i < 0 {
			t.Fatalf("port %d is not among %+v", port, list)
		}
		return list[i]
	}
	a, b := find(diagSockets()), find(machine{root: "/"}.procSockets())
	if diff := cmp.Diff(a, b, cmp.AllowUnexported(socket{})); diff != "" {
		t.Errorf("-sock_diag +proc:\n%s", diff)
	}
}

func TestParseProcSocket(t *testing.T) {
	s, err := parseProcSocket("B80D01200000000067452301EFCDAB89:1F90", "42")
	if err != nil || s.IP != "2001:db8::123:4567:89ab:cdef" || s.Port != 8080 || s.inode != 42 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "00:1", "0100007F", "zz:1"} {
		if _, err := parseProcSocket(bad, "1"); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
}
