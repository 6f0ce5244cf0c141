package cmd

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/internal/problem"
)

// objectCommands are the commands all of whose arguments name objects. The arguments of other commands
// after the first one may be the command of a container, or values.
var objectCommands = []string{"apply", "delete", "restart", "scale", "serve", "start", "stop", "wait"}

// maxHolderNames limits the names in the result of holderName.
const maxHolderNames = 8

// holderName describes an invocation for lock files and owner records: the program, the command and the
// names of its objects. These files outlive the process and messages quote them, so they contain
// neither flags nor other arguments, which may be passwords (run -e PASSWORD=…).
func holderName(c *cobra.Command) string {
	words := []string{c.CommandPath()}
	given := c.Flags().Args()
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		given = given[:dash]
	}
	if !slices.Contains(objectCommands, c.Name()) {
		given = given[:min(len(given), 1)]
	}
	for _, arg := range given[:min(len(given), maxHolderNames)] {
		if shown := problem.ShownURL(arg); isObjectName(shown) {
			words = append(words, shown)
		}
	}
	if len(given) > maxHolderNames {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// maxObjectName is the maximum length of an object's name without the digest of an image.
const maxObjectName = 253

// isObjectName reports whether text may be a name, a type with a name, an image, a path or a URL without credentials.
func isObjectName(text string) bool {
	name, _, _ := strings.Cut(text, "@")
	return len(name) <= maxObjectName && objectName().MatchString(text)
}

// objectName has no {0,252}: compiling that would take 0.2 ms and 200 KB for each apply.
var objectName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9./~-][A-Za-z0-9._:/+~-]*(@sha[0-9]+:[0-9a-f]+)?$`)
})
