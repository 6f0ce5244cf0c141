package cmd

import (
	"io"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
)

// TestHolderName checks that lock files and owner records, which outlive a command, contain nothing
// that may be a password: neither values of flags nor the arguments of a container's command, in any
// of the forms that users type.
func TestHolderName(t *testing.T) {
	for line, want := range map[string]string{
		"run -e PASSWORD=hunter2 --rm busybox:1":                               "podrun run busybox:1",
		"run -ePASSWORD=hunter2 busybox hunter2 sh -c hunter2":                 "podrun run busybox",
		"run --env=PASSWORD=hunter2 -n prod web.yaml":                          "podrun run web.yaml",
		"run --env PASSWORD=hunter2 localhost/web@sha256:ab -- hunter2":        "podrun run localhost/web@sha256:ab",
		"exec web -- mysql -phunter2":                                          "podrun exec web",
		"exec -it web mysql hunter2":                                           "podrun exec web",
		"set env web PASSWORD=hunter2":                                         "podrun set env web",
		"set env PASSWORD=hunter2 web":                                         "podrun set env",
		"create secret generic db --from-literal=PASSWORD=hunter2":             "podrun create secret generic db",
		"create secret docker-registry r --docker-password hunter2":            "podrun create secret docker-registry r",
		"debug web --image busybox --env X=hunter2 -- sh hunter2":              "podrun debug web",
		"annotate web token=hunter2":                                           "podrun annotate web",
		"patch web -p hunter2":                                                 "podrun patch web",
		"apply https://user:hunter2@example.com/pod.yaml?token=hunter2 b.yaml": "podrun apply https://example.com/pod.yaml b.yaml",
		"apply --source-header=Authorization:hunter2 -f hunter2.yaml":          "podrun apply",
		"delete web deploy/api -n prod":                                        "podrun delete web deploy/api",
		"delete a b c d e f g h i":                                             "podrun delete a b c d e f g h …",
		"image pull user:hunter2@registry.example/app":                         "podrun image pull",
		"delete " + strings.Repeat("a", 253):                                   "podrun delete " + strings.Repeat("a", 253),
		"delete " + strings.Repeat("a", 254):                                   "podrun delete",
		"delete " + strings.Repeat("a", 253) + "@sha256:ab":                    "podrun delete " + strings.Repeat("a", 253) + "@sha256:ab",
		"--root-dir /hunter2 delete web":                                       "podrun delete web",
	} {
		a := cli.New(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		args := strings.Fields(line)
		root := newRootFor(a, args)
		args, err := grammar.Translate(root, args)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		c, rest, err := root.Find(args)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		// If the flags are wrong, the command does not run, but the name must have no password either.
		_ = c.ParseFlags(rest)
		if got := holderName(c); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
