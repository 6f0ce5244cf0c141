package discover

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParseResolvConf: what was parsed parses to the same once it is written again, and
// no entry holds a blank, which would be two.
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
		if len(conf.Searches) > 0 {
			again.WriteString("search " + strings.Join(conf.Searches, " ") + "\n")
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
