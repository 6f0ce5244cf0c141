package inspect

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// viewTick is the interval at which a live view updates the ages.
const viewTick = time.Second

// Control sequences (xterm) that begin and end a live view: it uses the alternate screen, so
// that the lines before it are shown again at its end, and hides the cursor.
const (
	enterView = "\x1b[?1049h\x1b[?25l"
	leaveView = "\x1b[?25h\x1b[?1049l"
)

// canView reports whether a live view is possible: it requires a terminal for the table and for
// the keys.
func canView(a *cli.App) bool { return cli.TerminalOf(a.Raw.Out) != nil && a.StdinTerminal() != nil }

// liveView shows data on the terminal until q is pressed or ctx ends. Collect runs in another
// goroutine, reads the data and passes each state to show. It returns when its ctx ends or when
// a read fails.
func liveView(ctx context.Context, a *cli.App, order string, messages *heldMessages, collect func(ctx context.Context, show func(viewData)) error) error {
	out := cli.TerminalOf(a.Raw.Out)
	messages.hold()
	defer messages.release()
	restore, err := enterTerminal(a.StdinTerminal(), out)
	if err != nil {
		return err
	}
	a.Work.SetRestore(restore)
	defer restore()
	states, done, stop := startCollecting(ctx, collect)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	keys := readKeys(a.StdinTerminal())
	ticks := time.NewTicker(viewTick)
	defer ticks.Stop()
	var data viewData
	var drawn []string
	for {
		if data != nil {
			s := a.ScreenOf(out)
			_, height := cli.SizeOf(out)
			// A character in the last column would move the cursor to the next line.
			s.Width--
			lines := viewLines(data, order, time.Now(), messages.last(), s, height)
			if _, err := io.WriteString(out, redraw(drawn, lines)); err != nil {
				return fmt.Errorf("write to the terminal: %w", err)
			}
			drawn = lines
		}
		select {
		case err := <-done:
			return err
		case data = <-states:
		case key, open := <-keys:
			if !open {
				keys = nil
			}
			if key == 'q' {
				return nil
			}
			order = orderOf(data, key, order)
		case <-resized:
			drawn = nil
		case <-ticks.C:
		}
	}
}

// startCollecting calls collect in a goroutine. The channel states receives the newest state, and
// done receives the result of collect. The function stop ends collect, and waits until it has
// returned.
func startCollecting(ctx context.Context, collect func(context.Context, func(viewData)) error) (states <-chan viewData, done <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	newest, result, ended := make(chan viewData, 1), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		result <- collect(ctx, func(d viewData) {
			select {
			case <-newest: // a state that has not been shown
			default:
			}
			newest <- d
		})
	}()
	return newest, result, func() { cancel(); <-ended }
}

// orderOf returns the order that a key selects, or the current one.
func orderOf(data viewData, key byte, current string) string {
	if data != nil {
		for _, s := range data.sorts() {
			if s.key == key {
				return s.name
			}
		}
	}
	return current
}

// readKeys returns a channel with the bytes that the user types. It closes the channel when the terminal is gone. Its
// goroutine remains until the process exits, because a read of a terminal cannot be interrupted.
func readKeys(in *os.File) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var key [1]byte
		for {
			if n, err := in.Read(key[:]); n == 0 || err != nil {
				return
			}
			keys <- key[0]
		}
	}()
	return keys
}

// enterTerminal makes keys readable without Enter and echo, and begins the view. Ctrl-C still sends
// a signal. Ctrl-Z is disabled, because a stopped process would leave its view on the terminal.
func enterTerminal(in, out *os.File) (restore func(), err error) {
	before, err := term.GetState(int(in.Fd()))
	if err == nil {
		err = setKeyMode(int(in.Fd()))
	}
	if err != nil {
		return nil, fmt.Errorf("set the mode of the terminal: %w", err)
	}
	restore = sync.OnceFunc(func() {
		_, _ = io.WriteString(out, leaveView)
		_ = term.Restore(int(in.Fd()), before) // fails if the terminal is gone
	})
	if _, err := io.WriteString(out, enterView); err != nil {
		restore()
		return nil, fmt.Errorf("write to the terminal: %w", err)
	}
	return restore, nil
}

func setKeyMode(fd int) error {
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Lflag &^= unix.ICANON | unix.ECHO
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	mode.Cc[unix.VSUSP] = 0 // _POSIX_VDISABLE
	return unix.IoctlSetTermios(fd, unix.TCSETS, mode)
}

// heldMessages is the destination of a command's messages. While a live view uses the terminal,
// heldMessages keeps them.
type heldMessages struct {
	to io.Writer

	mu      sync.Mutex
	holding bool
	held    []string
}

// maxHeld is the maximum number of messages that are printed at the end of a live view.
const maxHeld = 20

// Write returns len(p), or fewer bytes with an error of the destination.
func (m *heldMessages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.holding {
		return m.to.Write(p)
	}
	text := string(p)
	if !slices.Contains(m.held, text) { // recurring problems
		m.held = append(m.held[max(len(m.held)-maxHeld+1, 0):], text)
	}
	return len(p), nil
}

func (m *heldMessages) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holding = true
}

// release prints the held messages.
func (m *heldMessages) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holding = false
	for _, text := range m.held {
		_, _ = io.WriteString(m.to, text) // stderr: there is no other place for the error
	}
	m.held = nil
}

// last returns the first line of the last message.
func (m *heldMessages) last() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return ""
	}
	line, _, _ := strings.Cut(m.held[len(m.held)-1], "\n")
	return line
}

// lastEvents returns the last event of each pod that has one.
func lastEvents(node *run.Node, pods []corev1.Pod) map[types.UID]event.Event {
	out := map[types.UID]event.Event{}
	for i := range pods {
		events, _ := lookup.Events(node, string(pods[i].UID)) // a pod without a readable journal has none
		for _, ev := range events {
			if last, ok := out[pods[i].UID]; !ok || !ev.Time.Before(last.Time) {
				out[pods[i].UID] = ev
			}
		}
	}
	return out
}
