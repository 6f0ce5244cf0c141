package problem

import (
	"strings"
	"testing"
)

func TestShownURL(t *testing.T) {
	for name, want := range map[string]string{
		"/etc/podrun/pods": "/etc/podrun/pods", "-": "-", "": "",
		"https://host/a.yaml":               "https://host/a.yaml",
		"https://host":                      "https://host",
		"https://u:p@host/a.yaml?token=t#f": "https://host/a.yaml",
		"https://u:p@x@host:1/a@b":          "https://host:1/a@b",
		"https://host?token=t":              "https://host",
		"https://host#f?":                   "https://host",
		"HTTPS://u@host":                    "HTTPS://host",
		"--filename=https://u:p@host/a,https://v:q@other/b?t,more&c": "--filename=https://host/a,https://other/b",
		"unix:///run/containerd/containerd.sock":                     "unix:///run/containerd/containerd.sock",
	} {
		if got := ShownURL(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestShownURLs(t *testing.T) {
	for text, want := range map[string]string{
		`open https://u:p@host/a?t: no such file`:         `open https://host/a no such file`,
		`"https://u:p@host/a?t" is not`:                   `"https://host/a" is not`,
		`no URL: a@b?c`:                                   `no URL: a@b?c`,
		"https://a/?x\nhttps://u@b/#y (see http://c/d e)": "https://a/\nhttps://b/ (see http://c/d e)",
	} {
		if got := ShownURLs(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	if got := Brief("502 Bad Gateway"); got != "502 Bad Gateway" {
		t.Error(got)
	}
	if got := Brief(strings.Repeat("ü", 100<<10)); len(got) > 1100 || !strings.HasSuffix(got, "... [203776 more bytes]") {
		t.Errorf("%d bytes: %s", len(got), got[max(0, len(got)-40):])
	}
}
