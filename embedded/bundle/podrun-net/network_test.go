package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// If a test executes this binary, TestMain runs the plugin, so that no plugin must be built.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" || isServicesCall() {
		killAtStep()
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// space is a network namespace for a test.
type space struct {
	t  *testing.T
	ns netns.NsHandle
}

func newSpace(t *testing.T) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: creates network namespaces")
	}
	s := &space{t: t}
	done := make(chan error)
	go func() {
		// The thread is never unlocked, so it exits with the goroutine.
		runtime.LockOSThread()
		var err error
		s.ns, err = netns.New()
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.ns.Close() })
	s.do(func() {
		up(t, "lo")
		writeSysctl(t, "net/ipv6/conf/default/accept_dad", "0")
	})
	return s
}

// do runs f in the namespace.
func (s *space) do(f func()) {
	s.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(s.ns)
		// Do this even if f ends the test.
		defer func() { done <- err }()
		if err == nil {
			f()
		}
	}()
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
}

func up(t *testing.T, name string, addresses ...string) netlink.Link {
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		runtime.Goexit()
	}
	for _, a := range addresses {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			t.Error(err)
			runtime.Goexit()
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(l, addr); err != nil {
			t.Errorf("%s %s: %v", name, a, err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return l
}

func writeSysctl(t *testing.T, name, value string) {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
		t.Errorf("sysctl %s: %v", name, err)
	}
}

func readSysctl(t *testing.T, name string) string {
	data, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		t.Errorf("sysctl %s: %v", name, err)
	}
	return strings.TrimSpace(string(data))
}

// testHost is a host with one neighbor. The neighbor has no route to the host's sandboxes.
type testHost struct {
	*space
	outside *space
	next    int
	env     []string // of the plugin
}

const (
	hostIP4, outsideIP4 = "192.0.2.1", "192.0.2.2"
	hostIP6, outsideIP6 = "2001:db8:1::1", "2001:db8:1::2"
)

func newHost(t *testing.T) *testHost {
	t.Helper()
	h := &testHost{space: newSpace(t), outside: newSpace(t), next: 2}
	h.join("up0", h.outside, "up0")
	h.do(func() { up(t, "up0", hostIP4+"/24", hostIP6+"/64") })
	h.outside.do(func() { up(t, "up0", outsideIP4+"/24", outsideIP6+"/64") })
	return h
}

// join creates a pair of interfaces. One of them is in another namespace.
func (s *space) join(name string, other *space, peer string) {
	s.t.Helper()
	s.do(func() {
		l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer, PeerNamespace: netlink.NsFd(other.ns)}
		if err := netlink.LinkAdd(l); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	})
}

// addBridge creates a bridge with 10.SUBNET.0.1/24 and fd00:SUBNET::1/64.
func (h *testHost) addBridge(name string, subnet int) {
	h.t.Helper()
	h.do(func() {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
			h.t.Errorf("%s: %v", name, err)
		}
		up(h.t, name, fmt.Sprintf("10.%d.0.1/24", subnet), fmt.Sprintf("fd00:%d::1/64", subnet))
	})
}

// pod is a sandbox with an interface like the one that the bridge plugin creates.
type pod struct {
	*space
	host   *testHost
	id     string
	bridge string
	ip4    string
	ip6    string
}

func (h *testHost) addPod(bridge string, subnet int) *pod {
	h.t.Helper()
	n := h.next
	h.next++
	p := &pod{space: newSpace(h.t), host: h, id: strings.Repeat(fmt.Sprintf("%02x", n), 32), bridge: bridge,
		ip4: fmt.Sprintf("10.%d.0.%d", subnet, n), ip6: fmt.Sprintf("fd00:%d::%d", subnet, n)}
	veth := fmt.Sprintf("veth%d", n)
	h.join(veth, p.space, "eth0")
	h.do(func() {
		l := up(h.t, veth)
		br := up(h.t, bridge)
		if err := netlink.LinkSetMaster(l, br); err != nil {
			h.t.Error(err)
		}
		if err := netlink.LinkSetHairpin(l, true); err != nil {
			h.t.Error(err)
		}
	})
	p.do(func() {
		l := up(h.t, "eth0", p.ip4+"/24", p.ip6+"/64")
		for _, gw := range []string{fmt.Sprintf("10.%d.0.1", subnet), fmt.Sprintf("fd00:%d::1", subnet)} {
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: net.ParseIP(gw)}); err != nil {
				h.t.Errorf("route by %s: %v", gw, err)
			}
		}
	})
	return p
}

// config returns the plugin's input for a pod.
func (p *pod) config(mappings ...portMapping) map[string]any {
	return map[string]any{
		"cniVersion": "1.1.0", "name": "net-" + p.bridge, "type": "podrun-net", "bridge": p.bridge,
		"runtimeConfig": map[string]any{"portMappings": mappings},
		"prevResult": map[string]any{
			"cniVersion": "1.1.0",
			"interfaces": []map[string]any{{"name": p.bridge}, {"name": "veth"}, {"name": "eth0", "sandbox": "/some/netns"}},
			"ips": []map[string]any{
				{"address": p.ip4 + "/24", "interface": 2}, {"address": p.ip6 + "/64", "interface": 2},
			},
		},
	}
}

// call executes the plugin on the host. Its environment contains only the CNI variables, and
// not even PATH.
func (h *testHost) call(command string, p *pod, config map[string]any) (stdout, stderr string, err error) {
	h.t.Helper()
	netns := ""
	if p != nil {
		netns = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(p.ns))
	}
	return h.callIn(netns, command, p, config)
}

// callIn is call with a path of the sandbox's network namespace.
func (h *testHost) callIn(netns, command string, p *pod, config map[string]any) (stdout, stderr string, err error) {
	h.t.Helper()
	input, err := json.Marshal(config)
	if err != nil {
		h.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, self)
	c.Env = append([]string{"CNI_COMMAND=" + command, "CNI_PATH=/nowhere"}, h.env...)
	if p != nil {
		c.Env = append(c.Env, "CNI_CONTAINERID="+p.id, "CNI_IFNAME=eth0", "CNI_NETNS="+netns)
	}
	c.Stdin = bytes.NewReader(input)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	h.do(func() { err = c.Run() })
	return out.String(), errs.String(), err
}

// must calls the plugin and fails the test if it returns an error.
func (h *testHost) must(command string, p *pod, config map[string]any) (stderr string) {
	h.t.Helper()
	stdout, stderr, err := h.call(command, p, config)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s%s", command, err, stdout, stderr)
	}
	return stderr
}

// add attaches a pod with host ports.
func (p *pod) add(mappings ...portMapping) {
	p.t.Helper()
	p.host.must("ADD", p, p.config(mappings...))
}

func (p *pod) del() {
	p.t.Helper()
	p.host.must("DEL", p, p.config())
}

// serve listens on a TCP or UDP port on all addresses. It replies with the word that it
// received and the address of the client.
func (s *space) serve(network, address string) {
	s.t.Helper()
	s.do(func() {
		if network == "udp" {
			conn, err := net.ListenPacket("udp", address)
			if err != nil {
				s.t.Error(err)
				return
			}
			s.t.Cleanup(func() { conn.Close() })
			go func() {
				buf := make([]byte, 100)
				for {
					n, from, err := conn.ReadFrom(buf)
					if err != nil {
						return
					}
					_, _ = conn.WriteTo(fmt.Appendf(nil, "%s %s", buf[:n], hostOf(from)), from)
				}
			}()
			return
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			s.t.Error(err)
			return
		}
		s.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					buf := make([]byte, 100)
					n, err := conn.Read(buf)
					if err == nil {
						fmt.Fprintf(conn, "%s %s", buf[:n], hostOf(conn.RemoteAddr()))
					}
				}()
			}
		}()
	})
}

func hostOf(a net.Addr) string {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	return p.Addr().Unmap().String()
}

// ask sends a word and returns the reply, if it arrives within limit.
func (s *space) ask(network, address string, limit time.Duration) (answer string, err error) {
	s.t.Helper()
	s.do(func() {
		var conn net.Conn
		if conn, err = net.DialTimeout(network, address, limit); err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(limit))
		if _, err = conn.Write([]byte("hi")); err != nil {
			return
		}
		buf := make([]byte, 100)
		var n int
		if n, err = conn.Read(buf); err == nil || err == io.EOF {
			answer, err = string(buf[:n]), nil
		}
	})
	return answer, err
}

// wants calls ask and compares the reply; "" means no reply.
func (s *space) wants(network, address, answer string) {
	s.t.Helper()
	// This is enough for a busy machine.
	limit := 20 * time.Second
	if answer == "" {
		limit = 500 * time.Millisecond
	}
	got, err := s.ask(network, address, limit)
	switch {
	case answer == "" && err == nil:
		s.t.Errorf("%s %s: answered %q: want no answer", network, address, got)
	case answer != "" && (err != nil || got != answer):
		s.t.Errorf("%s %s: %q, %v: want %q", network, address, got, err, answer)
	}
}
