package wait

import "testing"

func TestSignal(t *testing.T) {
	s := NewSignal()
	s.Send()
	s.Send() // does not block
	<-s
	select {
	case <-s:
		t.Error("two signals were pending")
	default:
	}
}
