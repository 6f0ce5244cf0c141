package complete

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
)

// bashFunctions is a script for hosts without the package bash-completion: it defines the one
// function of the package that cobra's script calls. As cobra's script requires, the function
// returns the words before the cursor, and splits the line only at spaces.
const bashFunctions = `# Used without the package bash-completion.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line == *" " ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]} prev=
    ((cword > 0)) && prev=${words[cword - 1]}
    return 0
}
fi

`

// AddBashFunctions makes 'completion bash' print bashFunctions before the script.
func AddBashFunctions(completion *cobra.Command, a *cli.App) {
	for _, c := range completion.Commands() {
		if c.Name() != "bash" {
			continue
		}
		script := c.RunE
		c.Long = strings.Replace(c.Long, "This script depends on the 'bash-completion' package.\nIf it is not installed already, you can install it via your OS's package manager.",
			"The script also works without the 'bash-completion' package.", 1)
		c.RunE = func(c *cobra.Command, given []string) error {
			if _, err := io.WriteString(a.Streams.Out, bashFunctions); err != nil {
				return err
			}
			return script(c, given)
		}
	}
}
