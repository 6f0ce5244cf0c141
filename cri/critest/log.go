package critest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// logFile is a container's log in the CRI's format. If its path is empty, it discards all
// output.
type logFile struct {
	path    string
	tty     bool
	profile Profile

	mu   sync.Mutex
	file *os.File
}

func openLog(path string, tty bool, p Profile) (*logFile, error) {
	l := &logFile{path: path, tty: tty, profile: p}
	return l, l.reopen()
}

func (l *logFile) reopen() error {
	if l.path == "" {
		return nil
	}
	if !l.profile.NeedsLogDir {
		if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// write adds one entry. Tag F means that the entry ends a line; P means that it does not.
func (l *logFile) write(stream string, tag byte, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	_, err := fmt.Fprintf(l.file, "%s %s %c %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, line)
	return err
}

// stream returns a writer for stdout or stderr.
func (l *logFile) stream(name string) *logStream {
	if l.tty {
		name = "stdout"
	}
	return &logStream{log: l, name: name}
}

// logStream splits the output into lines.
type logStream struct {
	log  *logFile
	name string
	mu   sync.Mutex
	rest []byte
}

func (s *logStream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, b...)
	longest := s.log.profile.LogPart
	for {
		end := bytes.IndexByte(s.rest, '\n')
		switch {
		case end >= 0 && end <= longest:
			line := s.rest[:end:end]
			switch {
			case !s.log.profile.CarriageReturns:
				line = bytes.TrimSuffix(line, []byte("\r"))
			case s.log.tty:
				line = append(line, '\r')
			}
			if err := s.log.write(s.name, 'F', line); err != nil {
				return 0, err
			}
			s.rest = s.rest[end+1:]
		case len(s.rest) > longest:
			if err := s.log.write(s.name, 'P', s.rest[:longest]); err != nil {
				return 0, err
			}
			s.rest = s.rest[longest:]
		default:
			return len(b), nil
		}
	}
}

// end writes the last line if it is incomplete.
func (s *logStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) > 0 {
		// The error is ignored, because a real runtime cannot report it either.
		s.log.write(s.name, 'P', s.rest)
		s.rest = nil
	}
}

// ReopenContainerLog implements the CRI.
func (rt *Runtime) ReopenContainerLog(_ context.Context, r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	if err := c.log.reopen(); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to create new container logger path %q: %v", c.log.path, err)
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
