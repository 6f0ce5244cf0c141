package pods

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// podrun must write all output of a container once and in order, whatever part of it the
// runtime has transmitted. log contains two states of the log: before the attach, and when the
// first attached output arrives.
func TestJoinedOutput(t *testing.T) {
	for name, c := range map[string]struct {
		log      [2]string
		attached []string
		want     string
	}{
		"nothing missed":           {[2]string{"", ""}, []string{"a\r\n", "b\r\n"}, "a\r\nb\r\n"},
		"a prompt":                 {[2]string{"", ""}, []string{"$ "}, "$ "},
		"before the attach":        {[2]string{"a\r\n", "a\r\n"}, []string{"b\r\n"}, "a\r\nb\r\n"},
		"during the attach":        {[2]string{"a\r\n", "a\r\nb\r\n"}, []string{"c\r\n"}, "a\r\nb\r\nc\r\n"},
		"in both":                  {[2]string{"", "a\r\nb\r\n"}, []string{"b\r\n", "c\r\n"}, "a\r\nb\r\nc\r\n"},
		"all in both":              {[2]string{"", "a\r\nb\r\n"}, []string{"a\r\n", "b\r\nc"}, "a\r\nb\r\nc"},
		"equal lines, none missed": {[2]string{"x\r\n", "x\r\nx\r\n"}, []string{"x\r\n"}, "x\r\nx\r\n"},
		"attached in small parts":  {[2]string{"", "a\r\nb\r\n"}, []string{"b", "\r", "\n", "c"}, "a\r\nb\r\nc"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				j := &joinedOutput{to: &out, before: []byte(c.log[0]), log: func() []byte { return []byte(c.log[1]) }}
				for _, p := range c.attached {
					if n, err := j.Write([]byte(p)); n != len(p) || err != nil {
						t.Fatal(n, err)
					}
				}
				time.Sleep(2 * joinWait)
				if out.String() != c.want || !j.attached() {
					t.Errorf("%q, want %q", out.String(), c.want)
				}
			})
		})
	}
	var out strings.Builder
	j := &joinedOutput{to: &out, before: []byte("a\r\n")}
	j.join()
	if out.String() != "" || j.attached() {
		t.Errorf("without output: %q", out.String())
	}
}
