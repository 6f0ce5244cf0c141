package discover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// podrun must find the sockets of this process, with their owner.
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
	got, _, err := sockets{machine{ctx: t.Context(), root: "/"}}.readListeners(ports)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%+v is not among %+v", w, got)
		}
	}
}

// A socket on :: also occupies the IPv4 port, unless the socket is IPv6-only.
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
		// Another process may listen on the port of an IPv4 address.
		i := slices.IndexFunc(sockets, func(s socket) bool { return s.Port == port && s.Protocol == corev1.ProtocolTCP && s.IP == "::" })
		if i < 0 || sockets[i].V6Only != want {
			t.Errorf("%s: %d of %+v, want V6Only %v", network, i, sockets, want)
		}
	}
}

// The two readers must return the same sockets.
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
		i := slices.IndexFunc(list, func(s socket) bool { return s.Port == port && s.Protocol == corev1.ProtocolTCP && s.IP == "127.0.0.1" })
		if i < 0 {
			t.Fatalf("port %d is not among %+v", port, list)
		}
		return list[i]
	}
	a, b := find(diagSockets()), find(sockets{machine{ctx: t.Context(), root: "/"}}.procSockets())
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
			t.Errorf("%q is parsed as an address", bad)
		}
	}
}

// TestSCTPTable parses the output of Linux (net/sctp/proc.c).
func TestSCTPTable(t *testing.T) {
	const table = ` ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS
       0        0 2   10  9    36412     0 465 192.0.2.142 10.0.0.1 
       0        0 2   1   25   38412     0 466 192.0.2.142 
       0        0 0   10  3    2905      0 467 0000:0000:0000:0000:0000:0000:0000:0000 
`
	got, loaded, err := sockets{tree(t, map[string]string{sctpTable: table})}.sctpSockets()
	if err != nil || !loaded {
		t.Fatal(loaded, err)
	}
	var lines []string
	for _, s := range got {
		lines = append(lines, fmt.Sprintf("%s %s %d %d", s.Protocol, s.IP, s.Port, s.inode))
	}
	if want := []string{"SCTP 192.0.2.142 36412 465", "SCTP 10.0.0.1 36412 465", "SCTP :: 2905 467"}; !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
	if _, loaded, err := (sockets{tree(t, nil)}).sctpSockets(); loaded || err != nil {
		t.Error("without SCTP:", loaded, err)
	}
	for _, bad := range []string{"x 0 2 10 9 notaport 0 465 192.0.2.1", "x 0 2 10 9 1 0 inode 192.0.2.1", "x 0 2 10 9 1 0 465 nowhere"} {
		if _, _, err := (sockets{tree(t, map[string]string{sctpTable: "header\n" + bad + "\n"})}).sctpSockets(); err == nil {
			t.Errorf("%q is parsed as a socket", bad)
		}
	}
}

// TestSCTPListener finds a socket of this process.
func TestSCTPListener(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip("this kernel has no SCTP")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := int32(name.(*unix.SockaddrInet4).Port)
	got, loaded, err := sockets{machine{ctx: t.Context(), root: "/"}}.readListeners([]host.HostPort{{Protocol: corev1.ProtocolSCTP, Port: port}})
	if err != nil || loaded == nil || !*loaded {
		t.Fatal(loaded, err)
	}
	if !slices.ContainsFunc(got, func(l host.Listener) bool {
		return l.Protocol == corev1.ProtocolSCTP && l.IP == "127.0.0.1" && l.Port == port && l.PID == os.Getpid()
	}) {
		t.Errorf("the socket is not among %+v", got)
	}
}
