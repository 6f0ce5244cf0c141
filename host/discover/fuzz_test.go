package discover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/test/patience"
)

// TestLongResolvConf checks that a megabyte of options is parsed quickly. It used to take four
// minutes.
func TestLongResolvConf(t *testing.T) {
	var text strings.Builder
	text.WriteString("options")
	n := 0
	for ; text.Len() < 1<<20; n++ {
		fmt.Fprintf(&text, " o%d:1", n)
	}
	var conf host.ResolvConf
	var err error
	patience.Within(t, 20, "a megabyte of options", func() { conf, err = parseResolvConf(text.String() + " o7:2") })
	if err != nil || len(conf.Options) != n || conf.Options[n-1] != "o7:2" || conf.Options[7] != "o8:1" {
		t.Errorf("%d options, want %d: %v", len(conf.Options), n, err)
	}
}

// FuzzParseResolvConf writes a parsed result and parses it again. The result must be the same,
// and no entry may contain a blank, because a blank would split it.
func FuzzParseResolvConf(f *testing.F) {
	for _, seed := range []string{
		"nameserver 10.0.0.1\nnameserver fd00::1%eth0\nsearch a.example b.example. .\noptions ndots:5 rotate ndots:2\n",
		"; comment\n# comment\n  nameserver\t1.1.1.1 # more\n", "search\n", "domain x\nsortlist y\n", "nameserver\n", "options edns0\r\nsearch a\x00b\n", "search a\u00a0b\u2003c\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		conf, err := parseResolvConf(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, n := range conf.Nameservers {
			again.WriteString("nameserver " + n + "\n")
		}
		// One dot at the end is removed.
		if len(conf.Searches) > 0 {
			again.WriteString("search " + strings.Join(conf.Searches, ". ") + ".\n")
		}
		if len(conf.Options) > 0 {
			again.WriteString("options " + strings.Join(conf.Options, " ") + "\n")
		}
		back, err := parseResolvConf(again.String())
		if err != nil {
			t.Fatalf("%v of %q", err, again.String())
		}
		if len(conf.Searches) == 0 {
			conf.Searches = nil
		}
		if diff := cmp.Diff(conf, back); diff != "" {
			t.Errorf("%q: %s", again.String(), diff)
		}
	})
}
