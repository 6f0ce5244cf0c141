// Package hostport reserves ports of the host for tests. A test that closes a listener and then uses
// its port fails if another process takes the port between these steps.
package hostport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below the kernel's range of ephemeral ports (ip_local_port_range) and below the node
// ports of Services. They are also below the ports of the recipes in the documents (from 18080), and
// hack/crio configures CRI-O for registries on them.
var reserved = ports{first: 10000, last: 17999}

// nodePorts are the node ports that podrun assigns to Services (--service-node-port-range).
var nodePorts = ports{first: 30000, last: 32767}

// ports is a range of ports.
type ports struct {
	first, last int
	sync.Mutex
	next  int            // 0 before the first reservation
	marks []net.Listener // never closed: the kernel releases them when the process ends
}

// Reserve returns a port on which no process listens, and which no other call of Reserve returns, in
// any process of this network namespace, until this process ends.
func Reserve() (int, error) { return reserved.reserve() }

// ReserveNodePort is Reserve for the node port of a Service.
func ReserveNodePort() (int, error) { return nodePorts.reserve() }

func (p *ports) reserve() (int, error) {
	p.Lock()
	defer p.Unlock()
	if p.next == 0 {
		p.next = p.first + rand.IntN(p.last-p.first+1)
	}
	for range p.last - p.first + 1 {
		port := p.next
		if p.next++; p.next > p.last {
			p.next = p.first
		}
		// An abstract socket is a mark that only one process can have.
		mark, err := net.Listen("unix", fmt.Sprintf("@podrun-test-port-%d", port))
		if err != nil {
			continue
		}
		if !free(port) {
			mark.Close()
			continue
		}
		p.marks = append(p.marks, mark)
		return port, nil
	}
	return 0, errors.New("no free port")
}

// free reports whether no process uses a port, with TCP or UDP.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	defer l.Close()
	c, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	c.Close()
	return true
}
