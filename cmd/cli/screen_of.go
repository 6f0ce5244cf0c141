package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd/view"
)

// isTerminal returns w if it is a terminal, else nil.
func isTerminal(w io.Writer) *os.File {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}

// ScreenOf returns the current screen of a terminal, or the zero screen for nil. It
// honors NO_COLOR (no-color.org), and uses no colors on a dumb terminal, which would print
// escape sequences.
func (a *App) ScreenOf(terminal *os.File) view.Screen {
	s := view.Screen{Color: a.color == view.ColorAlways}
	if terminal == nil {
		return s
	}
	s.Width, _ = SizeOf(terminal)
	term := os.Getenv("TERM")
	if a.color != view.ColorNever && os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb" {
		s.Color = true
	}
	return s
}
