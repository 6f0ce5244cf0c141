package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
)

// journal keeps the events of one pod in its directory and hands them on. Until
// the directory exists it holds them back, so that a rollback leaves none.
type journal struct {
	pod  identity.Pod
	next event.Sink

	mu   sync.Mutex
	file *os.File
	held []event.Event
	err  error // the first failure to write; reported when the sync ends
}

// emit is an event.Sink that fills in the pod and the time.
func (j *journal) emit(e event.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Namespace, e.Pod, e.UID = j.pod.Namespace, j.pod.Name, j.pod.UID
	j.mu.Lock()
	if j.file == nil {
		j.held = append(j.held, e)
	} else {
		j.write(e)
	}
	j.mu.Unlock()
	if j.next != nil {
		j.next(e)
	}
}

// open starts writing to the pod's directory, with what was held back.
func (j *journal) open(layout identity.Layout) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		return nil
	}
	f, err := os.OpenFile(layout.Journal(j.pod.UID), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("open the journal of pod %s: %w", j.pod, err)
	}
	if err := endLine(f); err != nil {
		f.Close()
		return fmt.Errorf("open the journal of pod %s: %w", j.pod, err)
	}
	j.file = f
	for _, e := range j.held {
		j.write(e)
	}
	j.held = nil
	return nil
}

// endLine ends a last line that a crash cut short, so that the next event is
// not lost with it.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}

func (j *journal) write(e event.Event) {
	data, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(data, '\n'))
	}
	if err != nil && j.err == nil {
		j.err = fmt.Errorf("write the journal of pod %s: %w", j.pod, err)
	}
}

// close ends the journal and reports the first failure to write to it.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.err = errors.Join(j.err, j.file.Close())
		j.file = nil
	}
	return j.err
}

// ReadJournal reads the events of a pod, the oldest first; none if there is no
// journal. A last line that a crash cut short is left out.
func ReadJournal(layout identity.Layout, uid string) ([]event.Event, error) {
	data, err := os.ReadFile(layout.Journal(uid))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var events []event.Event
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var e event.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			events = append(events, e)
		}
	}
	return events, lines.Err()
}
