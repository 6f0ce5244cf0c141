package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"testing"
)

// reads returns one part for each call, and then an error.
type reads struct {
	parts [][]byte
	err   error
}

func (r *reads) Read(b []byte) (int, error) {
	if len(r.parts) == 0 {
		return 0, r.err
	}
	n := copy(b, r.parts[0])
	if r.parts[0] = r.parts[0][n:]; len(r.parts[0]) == 0 {
		r.parts = r.parts[1:]
	}
	return n, nil
}

func TestCopyFromPod(t *testing.T) {
	broken := errors.New("broken")
	for _, err := range []error{io.EOF, broken} {
		for _, sizes := range [][]int{{}, {1}, {2 << 10}, {2<<10 + 1}, {1, 2 << 10, 5, 300 << 10, 7}, {64 << 10, 64 << 10}} {
			r := &reads{err: err}
			var want []byte
			for i, size := range sizes {
				part := bytes.Repeat([]byte{byte('a' + i)}, size)
				r.parts = append(r.parts, part)
				want = append(want, part...)
			}
			var got bytes.Buffer
			n, failure := copyFromPod(&got, r)
			if !bytes.Equal(got.Bytes(), want) || n != int64(len(want)) || errors.Is(failure, broken) != (err == broken) || err == io.EOF && failure != nil {
				t.Errorf("%v: %d of %d bytes, %v", sizes, n, len(want), failure)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.255.255.254": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"::ffff:10.0.0.1": true, "::127.0.0.1": true, "::ffff:127.0.0.1": true,
		"224.0.0.1": true, "239.1.1.1": true, "ff02::1": true, "255.255.255.255": true,
		"169.254.1.1": true, "fe80::1": true, "169.254.169.254": true, "fd00:ec2::254": true,
		"192.0.0.1": true, "192.0.0.2": true, "192.0.0.7": true, "fd00:706f:6472::5": true,
		"192.0.0.8": false, "10.0.0.1": false, "192.168.1.1": false, "8.8.8.8": false, "100.64.0.1": false,
		"fd00:706f:6473::1": false, "2001:db8::1": false, "fd00::1": false, "64:ff9b::1": false, "fd00:ec2::253": false,
	} {
		if got := refused(netip.MustParseAddr(address), false); got != want {
			t.Errorf("%s: %v", address, got)
		}
		allowed := address == "169.254.169.254" || address == "fd00:ec2::254"
		if got := refused(netip.MustParseAddr(address), true); got != (want && !allowed) {
			t.Errorf("%s with metadata: %v", address, got)
		}
	}
}

func TestBufferSize(t *testing.T) {
	total := 0
	for n := 1; n <= limitsFor(1<<20).tcp; n++ {
		total += 2 * bufferSize(n)
	}
	if bufferSize(0) != maxBuffer || bufferSize(1) != maxBuffer || total > 600<<20 {
		t.Errorf("%d bytes of all connections", total)
	}
	for _, files := range []int{64, 1024, 4096, 1 << 20} {
		l := limitsFor(files)
		if l.tcp+l.udp+l.pings+maxResolvers*l.queries > files*3/4 || min(l.handshakes, l.pings, l.queries) < 1 {
			t.Errorf("%d files: %+v", files, l)
		}
	}
}

func TestParseResolvers(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "[127.0.0.1]",
		"nameserver\nnameserver x\n":         "[127.0.0.1]",
		"# nameserver 1.1.1.1\noptions x\n":  "[127.0.0.1]",
		"nameserver 127.0.0.53\nsearch a b":  "[127.0.0.53]",
		"nameserver ::ffff:10.0.0.1\n":       "[10.0.0.1]",
		" nameserver\tfe80::1%eth0 # x\n":    "[fe80::1%eth0]",
		"nameserver ::1\nnameserver 9.9.9.9": "[::1 9.9.9.9]",
	} {
		var got bytes.Buffer
		for i, a := range ParseResolvers(text) {
			if i > 0 {
				got.WriteByte(' ')
			}
			got.WriteString(a.String())
		}
		if "["+got.String()+"]" != want {
			t.Errorf("%q: %s, want %s", text, got.String(), want)
		}
	}
}

func TestAnswers(t *testing.T) {
	query := []byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		reply []byte
		want  bool
	}{
		{[]byte{1, 2, 0x81, 0, 0, 1, 0, 0, 0, 0, 0, 0}, true},
		{query, false},
		{[]byte{1, 3, 0x81, 0, 0, 1, 0, 0, 0, 0, 0, 0}, false},
		{[]byte{1, 2, 0x81}, false},
		{nil, false},
	} {
		if got := answers(c.reply, query); got != c.want {
			t.Errorf("%v: %v", c.reply, got)
		}
	}
}
