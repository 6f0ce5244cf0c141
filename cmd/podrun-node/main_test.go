package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/serve/cluster"
)

// help returns the output of podrun-node --help.
func help(t *testing.T) string {
	t.Helper()
	var out, errOut bytes.Buffer
	streams := cmd.Streams{In: strings.NewReader(""), Out: &out, Err: &errOut}
	if code := cmd.NodeMain(t.Context(), []string{"--help"}, streams, "devel", time.Now(), cluster.NewJoiner("devel")); code != 0 {
		t.Fatalf("code %d: %s", code, errOut.String())
	}
	return out.String()
}

// TestFlagsInPages checks that the flags of podrun-node's command lines in the pages exist.
func TestFlagsInPages(t *testing.T) {
	text := help(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("(?m)^podrun-node .*$|`podrun-node [^`]*`")
	flags := regexp.MustCompile(`--[a-z][a-z-]+`)
	found := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines.FindAllString(string(data), -1) {
			for _, flag := range flags.FindAllString(line, -1) {
				if found++; !regexp.MustCompile(flag + `\b`).MatchString(text) {
					t.Errorf("%s: podrun-node has no flag %s", page, flag)
				}
			}
		}
	}
	if found == 0 {
		t.Error("the pages have no command line of podrun-node")
	}
}
