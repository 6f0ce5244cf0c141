package wait

// Signal is a channel that wakes one goroutine. Signals that arrive before it receives are one signal:
// the receiver reads the current state, not the content of a signal. Receive from it as from any channel.
type Signal chan struct{}

// NewSignal returns a Signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends a signal unless one is already pending. It never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
