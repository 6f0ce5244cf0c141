package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plugin calls podrun-net in U and M, as containerd and podrun do.
type plugin struct {
	*instance
	r    *record
	path string
	kill string // a step of podrun-net
}

func newPlugin(t *testing.T) *plugin {
	t.Helper()
	p := &plugin{instance: newInstance(t)}
	p.path = filepath.Join(p.bin, "podrun-net")
	if _, err := os.Stat(p.path); err != nil {
		// The binary of its tests is the plugin, too, and can be killed at each step.
		build := exec.Command("go", "test", "-c", "-o", p.path, "../podrun-net")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	p.r = p.mustStart()
	return p
}

// sandbox creates a network namespace in U, and returns its path in M.
func (p *plugin) sandbox(name string) string {
	p.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		p.Fatal(err)
	}
	if out, err := p.enter(p.r, "/usr/bin/unshare", "--net="+path, "true").CombinedOutput(); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	return path
}

type object = map[string]any

func (p *plugin) setting() object { return object{"netns": p.r.Netns, "ports": p.r.Ports} }

func (p *plugin) config(ports []object) object {
	return object{
		"cniVersion": "1.1.0", "name": "podrun", "type": "podrun-net", "bridge": "podrun0", "isDefaultGateway": true, "hairpinMode": true,
		"ipam":          object{"type": "host-local", "dataDir": p.dir + "/addresses", "ranges": [][]object{{{"subnet": "10.65.0.0/24"}}, {{"subnet": "fd65::/64"}}}},
		"runtimeConfig": object{"portMappings": ports},
		"rootless":      p.setting(),
	}
}

// call calls the plugin for a sandbox, or without one.
func (p *plugin) call(command, id, netns string, config object) ([]byte, error) {
	p.Helper()
	input, err := json.Marshal(config)
	if err != nil {
		p.Fatal(err)
	}
	args := []string{p.path}
	if command == "services" {
		args = append(args, command)
	}
	c := p.enter(p.r, args...)
	if command != "services" {
		c.Env = append(c.Env, "CNI_COMMAND="+command, "CNI_CONTAINERID="+id, "CNI_NETNS="+netns, "CNI_IFNAME=eth0", "CNI_PATH="+p.bin)
	}
	if p.kill != "" {
		c.Env = append(c.Env, "PODRUN_NET_KILL="+p.kill)
	}
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &out, &out
	err = c.Run()
	return out.Bytes(), err
}

func (p *plugin) must(command, id, netns string, config object) []byte {
	p.Helper()
	out, err := p.call(command, id, netns, config)
	if err != nil {
		p.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// add attaches a sandbox, and returns its IPv4 address.
func (p *plugin) add(id, netns string, ports ...object) string {
	p.Helper()
	var result struct {
		IPs []struct{ Address netip.Prefix }
	}
	out := p.must("ADD", id, netns, p.config(ports))
	if err := json.Unmarshal(out, &result); err != nil || len(result.IPs) != 2 {
		p.Fatalf("%v\n%s", err, out)
	}
	return result.IPs[0].Address.Addr().String()
}

func mapping(host, container int, protocol string) object {
	return object{"hostPort": host, "containerPort": container, "protocol": protocol}
}

// listen accepts connections in a sandbox, and answers each with a text.
func (p *plugin) listen(netns, network, at, text string) {
	p.Helper()
	p.in(p.r, netns, func() {
		l, err := net.Listen(network, at)
		if err != nil {
			p.Error(err)
			return
		}
		p.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
	})
}

// read connects, and returns what the server sends, or the error.
func read(network, to string) string {
	c, err := dialer.Dial(network, to)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	data, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// list returns the ports of podrun-rootless as PORT/PROTOCOL>ADDRESS:PORT.
func (p *plugin) list() string {
	p.Helper()
	out, err := p.enter(p.r, "/bin/cat", portsPath(p.dir)).Output()
	if err != nil {
		p.Fatal(err)
	}
	var file struct {
		Ports []struct {
			Protocol, Address string
			HostPort, Port    int
		}
	}
	if err := json.Unmarshal(out, &file); err != nil {
		p.Fatal(err)
	}
	var all []string
	for _, x := range file.Ports {
		all = append(all, fmt.Sprintf("%d/%s>%s:%d", x.HostPort, x.Protocol, x.Address, x.Port))
	}
	return strings.Join(all, " ")
}

// TestPlugin attaches sandboxes to the network in N.
func TestPlugin(t *testing.T) {
	p := newPlugin(t)
	serveTCP(t, "tcp", ":7000", "host ")
	one := p.sandbox("one")
	address := p.add("one", one, mapping(18080, 80, "tcp"))
	p.listen(one, "tcp", ":80", "hello")
	for _, to := range []string{"127.0.0.1:18080", "[::1]:18080", hostIP4 + ":18080", "[" + hostIP6 + "]:18080"} {
		if got := read("tcp", to); got != "hello" {
			t.Errorf("%s: %q", to, got)
		}
	}
	if got, want := p.list(), "18080/tcp>"+address+":80"; got != want {
		t.Errorf("ports: %q, want %q", got, want)
	}
	p.must("STATUS", "", "", p.config(nil))

	// A second sandbox with the same host port fails, and leaves nothing behind.
	two := p.sandbox("two")
	out, err := p.call("ADD", "two", two, p.config([]object{mapping(18081, 80, "tcp"), mapping(18080, 80, "tcp")}))
	if err == nil || !strings.Contains(string(out), "host port 18080/tcp: listen tcp :18080: bind: address already in use") {
		t.Errorf("%v\n%s", err, out)
	}
	if got, want := p.list(), "18080/tcp>"+address+":80"; got != want {
		t.Errorf("ports: %q, want %q", got, want)
	}
	if second := p.add("two", two, mapping(18081, 80, "tcp")); second == address {
		t.Errorf("both have %s", second)
	}
	p.in(p.r, two, func() {
		if got := read("tcp", address+":80"); got != "hello" {
			t.Errorf("pod to pod: %q", got)
		}
		if got := read("tcp", hostIP4+":18080"); got != "hello" {
			t.Errorf("pod to host port: %q", got)
		}
		for _, to := range []string{hostIP4 + ":7000", "[" + hostIP6 + "]:7000"} {
			if got := exchange("tcp", to, 500_000); got != "host 500000" {
				t.Errorf("pod to %s: %q", to, got)
			}
		}
		for _, to := range []string{"192.0.0.1:7000", "10.65.0.1:7000"} {
			if got := exchange("tcp", to, 1); !strings.Contains(got, "refused") {
				t.Errorf("pod to %s: %q", to, got)
			}
		}
	})
	p.must("DEL", "one", one, p.config(nil))
	if got := read("tcp", "127.0.0.1:18080"); !strings.Contains(got, "refused") {
		t.Errorf("after DEL: %q", got)
	}
	p.must("DEL", "one", "", p.config(nil))
	p.must("GC", "", "", merge(p.config(nil), object{"cni.dev/valid-attachments": []any{}, "podrun.dev/only-unused": true}))
	if got := p.list(); !strings.HasPrefix(got, "18081/tcp>") {
		t.Errorf("after GC of what is unused: %q", got)
	}
	p.must("GC", "", "", merge(p.config(nil), object{"cni.dev/valid-attachments": []any{}}))
	if got := p.list(); got != "" {
		t.Errorf("after GC: %q", got)
	}
}

func merge(all ...object) object {
	out := object{}
	for _, o := range all {
		for k, v := range o {
			out[k] = v
		}
	}
	return out
}

// TestPluginKilled kills podrun-net, and podrun-rootless during its call. DEL removes everything.
func TestPluginKilled(t *testing.T) {
	p := newPlugin(t)
	ports := []object{mapping(18080, 80, "tcp"), mapping(18081, 81, "udp")}
	for _, c := range []struct{ command, step string }{{"ADD", "ports/before#1"}, {"ADD", "ports/after#1"}, {"DEL", "unport/before#1"}, {"DEL", "unrule/after#1"}, {"DEL", "release/before#1"}} {
		id := strings.NewReplacer("/", "", "#", "").Replace(c.step)
		sandbox := p.sandbox(id)
		if c.command == "DEL" {
			p.add(id, sandbox, ports...)
		}
		p.kill = c.step
		if out, err := p.call(c.command, id, sandbox, p.config(ports)); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%s is not killed at %s: %v\n%s", c.command, c.step, err, out)
		}
		p.kill = ""
		p.must("DEL", id, "", p.config(nil))
		if got := p.list(); got != "" {
			t.Errorf("%s: %s", c.step, got)
		}
		// The same ports and the same address are free.
		p.add(id, sandbox, ports...)
		p.must("DEL", id, sandbox, p.config(nil))
	}
}

// TestPluginWithoutRootless calls the plugin while podrun-rootless is not running.
func TestPluginWithoutRootless(t *testing.T) {
	p := newPlugin(t)
	keeper := p.keeper(p.r)
	one, two := p.sandbox("one"), p.sandbox("two")
	p.add("one", one, mapping(18080, 80, "tcp"))
	p.add("two", two)
	p.killAndWait(p.r.PID)
	p.r.PID, p.r.StartTime = keeper.PID, keeper.StartTime
	const want = "podrun-rootless is not running: run a podrun command, which starts it"
	if out, err := p.call("ADD", "three", p.sandbox("three"), p.config([]object{mapping(18082, 80, "tcp")})); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("ADD: %v\n%s", err, out)
	}
	if out, err := p.call("STATUS", "", "", p.config(nil)); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("STATUS: %v\n%s", err, out)
	}
	if out, err := p.call("DEL", "one", one, p.config(nil)); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("DEL of a sandbox with a host port: %v\n%s", err, out)
	}
	p.must("DEL", "two", two, p.config(nil)) // without host ports
	if m, errs := p.startInside(keeper); !m.Ready {
		t.Fatalf("%+v %s", m, errs)
	}
	p.must("DEL", "one", one, p.config(nil))
	if got := p.list(); got != "" {
		t.Error(got)
	}
}

// TestServices opens node ports of Services.
func TestServices(t *testing.T) {
	p := newPlugin(t)
	one := p.sandbox("one")
	address := p.add("one", one)
	p.listen(one, "tcp", ":80", "hello")
	taken, err := net.Listen("tcp", ":30002")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := func(name, protocol string, nodePort int) object {
		return object{"service": name, "address": "10.96.0.9", "protocol": protocol, "port": 8000 + nodePort - 30000, "nodePort": nodePort, "endpoints": []string{address + ":80"}}
	}
	table := func(ports ...object) object {
		return object{"bridge": "podrun0", "ranges": []string{"10.96.0.0/16"}, "subnets": []string{"10.65.0.0/24"}, "ports": ports, "rootless": p.setting()}
	}
	p.must("services", "", "", table(port("a", "tcp", 30000), port("a", "udp", 30000), port("b", "tcp", 30001)))
	p.in(p.r, one, func() {
		if got := read("tcp", "10.96.0.9:8000"); got != "hello" {
			t.Errorf("virtual IP: %q", got)
		}
	})
	for _, to := range []string{"127.0.0.1:30000", "[::1]:30000", hostIP4 + ":30001"} {
		if got := read("tcp", to); got != "hello" {
			t.Errorf("%s: %q", to, got)
		}
	}
	// A port that is taken does not affect the others, and the next call tries it again.
	out, err := p.call("services", "", "", table(port("a", "tcp", 30000), port("c", "tcp", 30002), port("d", "tcp", 30003)))
	if err == nil || !strings.Contains(string(out), "node port: host port 30002/tcp: listen tcp :30002: bind: address already in use") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, to := range []string{"127.0.0.1:30000", "127.0.0.1:30003"} {
		if got := read("tcp", to); got != "hello" {
			t.Errorf("%s: %q", to, got)
		}
	}
	if got := read("tcp", "127.0.0.1:30001"); !strings.Contains(got, "refused") {
		t.Errorf("a removed node port: %q", got)
	}
	p.must("GC", "", "", merge(p.config(nil), object{"cni.dev/valid-attachments": []any{}, "podrun.dev/only-unused": true}))
	if got := read("tcp", "127.0.0.1:30000"); got != "hello" {
		t.Errorf("after GC of what is unused: %q", got)
	}
	p.must("services", "", "", table())
	if got := p.list(); got != "" {
		t.Errorf("without Services: %s", got)
	}
}
