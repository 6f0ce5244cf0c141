package steps

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	trace := "file/a/created#1\ncri/Version/before#1\ncri/Version/sent#1\ncri/Version/after#1\ncri/Version/after#2\ncri/Version/after#3\n" +
		"cri/StopContainer/before#1\ncri/StopContainer/sent#1\ncri/StopContainer/after#1\n"
	want := "file/a/created#1 cri/Version/after#1 cri/Version/after#2 cri/StopContainer/before#1 " +
		"cri/StopContainer/sent#1@0ms cri/StopContainer/sent#1@10ms cri/StopContainer/sent#1@30ms cri/StopContainer/after#1"
	if got := strings.Join(Of(trace), " "); got != want {
		t.Errorf("Of = %s\nwant %s", got, want)
	}
}
