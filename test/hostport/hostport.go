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
const first, last = 10000, 17999

var reserved struct {
	sync.Mutex
	next  int
	marks []net.Listener // never closed: the kernel releases them when the process ends
}

// Reserve returns a port on which no process listens, and which no other call of Reserve returns, in
// any process of this network namespace, until this process ends.
func Reserve() (int, error) {
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.next == 0 {
		reserved.next = first + rand.IntN(last-first+1)
	}
	for range last - first + 1 {
		port := reserved.next
		if reserved.next++; reserved.next > last {
			reserved.next = first
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
		reserved.marks = append(reserved.marks, mark)
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
