package systemd

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxStatus limits the length of a status text, in bytes.
const maxStatus = 512

// statusMessage returns the message for a status: one line of UTF-8, because each line of a
// message is a separate assignment.
func statusMessage(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if len(text) > maxStatus {
		cut := maxStatus - len("…")
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return "STATUS=" + strings.TrimSpace(text)
}

// reloadingMessage returns the message for the beginning of a reload. The argument is a time of
// CLOCK_MONOTONIC.
func reloadingMessage(monotonic time.Duration) string {
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic.Microseconds())
}

// WatchdogInterval returns how long systemd waits for Notifier.Watchdog before it terminates the
// service. It also reports whether systemd watches the process pid at all. Like
// sd_watchdog_enabled(3), it reads WATCHDOG_USEC and WATCHDOG_PID. Watchdog should be called at
// half of that interval. The function getenv must return "" for a variable that is not set.
// WatchdogInterval ignores values that systemd never sets.
func WatchdogInterval(getenv func(string) string, pid int) (time.Duration, bool) {
	usec, err := strconv.ParseUint(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec == 0 || usec > math.MaxInt64/uint64(time.Microsecond) {
		return 0, false
	}
	if p := getenv("WATCHDOG_PID"); p != "" && p != strconv.Itoa(pid) {
		return 0, false
	}
	return time.Duration(usec) * time.Microsecond, true
}

// socketAddress checks the value of NOTIFY_SOCKET. It is the path of a socket, or @ and the
// name of an abstract socket.
func socketAddress(socket string) error {
	// The length of sun_path without the NUL at the end of a path (unix(7)).
	longest := 107
	if strings.HasPrefix(socket, "@") {
		// In the address of an abstract socket, a NUL replaces the @, and there is no final NUL.
		longest++
	}
	switch {
	case len(socket) > longest:
		return fmt.Errorf("NOTIFY_SOCKET %.40q…: longer than %d bytes", socket, longest)
	case len(socket) < 2 || socket[0] != '/' && socket[0] != '@':
		return fmt.Errorf("NOTIFY_SOCKET %q: neither an absolute path nor an abstract socket (@NAME)", socket)
	}
	return nil
}
