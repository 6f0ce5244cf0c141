package hostports

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/bundle/podrun-rootless/relay"
)

const (
	// dialLimit limits a connection attempt to a pod.
	dialLimit = 10 * time.Second
	// pause limits the use of the CPU if no more files can be opened.
	pause = 50 * time.Millisecond
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 15 * time.Second, Count: 8}

// listenTCP accepts connections until the result is closed. Open connections continue, as with the
// kernel's forwarding.
func (f *Forwarder) listenTCP(network, at string, to netip.AddrPort) (io.Closer, error) {
	address, err := net.ResolveTCPAddr(network, at)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP(network, address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			client, err := l.AcceptTCP()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(pause)
				continue
			}
			select {
			case f.slots <- struct{}{}:
				go func() {
					defer func() { <-f.slots }()
					f.serve(client, to)
				}()
			default:
				refuse(client)
			}
		}
	}()
	return l, nil
}

// refuse resets a connection.
func refuse(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (f *Forwarder) serve(client *net.TCPConn, to netip.AddrPort) {
	pod, err := f.dialTCP(to)
	if err != nil {
		refuse(client)
		return
	}
	_ = client.SetKeepAliveConfig(keepAlive)
	_ = pod.SetKeepAliveConfig(keepAlive)
	var wg sync.WaitGroup
	for _, d := range [][2]*net.TCPConn{{pod, client}, {client, pod}} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := relay.UntilIdle(d[1], func() (int64, error) { return relay.Copy(d[0], d[1]) }); err != nil || d[0].CloseWrite() != nil {
				refuse(pod)
				refuse(client)
				return
			}
			_ = d[0].SetReadDeadline(time.Now().Add(relay.IdleLimit))
		}()
	}
	wg.Wait()
	_ = pod.Close()
	_ = client.Close()
}

// dialTCP connects from the node's network namespace. Only the creation of the socket requires a
// thread there.
func (f *Forwarder) dialTCP(to netip.AddrPort) (*net.TCPConn, error) {
	c, err := f.dial(to, unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func (f *Forwarder) dial(to netip.AddrPort, kind int) (net.Conn, error) {
	var sa unix.Sockaddr = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	fd, err := f.socket(family, kind)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "socket") // fd does not block
	defer file.Close()                        // FileConn duplicates it
	if err := unix.Connect(fd, sa); errors.Is(err, unix.EINPROGRESS) {
		err = await(file)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// await waits until a socket is connected.
func await(file *os.File) error {
	if err := file.SetWriteDeadline(time.Now().Add(dialLimit)); err != nil {
		return err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			failure = err
		case code != 0:
			failure = unix.Errno(code)
		default:
			_, err := unix.Getpeername(int(fd))
			return err == nil
		}
		return true
	})
	return errors.Join(err, failure)
}
