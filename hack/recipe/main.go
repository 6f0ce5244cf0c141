// Recipe prints a bash script that executes the code blocks of a document:
//
//	go run ./hack/recipe docs/ci.md | bash
//	go run ./hack/recipe -guest docs/edge.md
//	go run ./hack/recipe -only registry docs/edge.md
//
// Recipe executes only code blocks that have a language:
//
//	```yaml web.yaml    a file, written before anything runs
//	```sh               commands; each must succeed
//	```console          commands after "$ ", with their output: the command must
//	                    print each of these lines, in this order
//	```… not-run        is not executed
//	```… guest          runs with -guest only: it changes the host's services
//	```… no-guest       runs without -guest only
//	```… only-WORD      runs with -only WORD, which runs no other blocks
//
// In expected lines, * matches any text, and all blanks, addresses and durations match each
// other. The namespace is default.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	guest := flag.Bool("guest", false, "include the blocks that change the host's services")
	only := flag.String("only", "", "run the blocks that are marked with only-`WORD`, and no others")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *guest, *only); err != nil {
		fmt.Fprintln(os.Stderr, "recipe:", err)
		os.Exit(1)
	}
}

// block is a fenced code block of a document.
type block struct {
	line int // number of the block's first line
	// the words after the fence; the first one is the language
	words []string
	text  []string
}

func (b block) language() string { return b.words[0] }

func (b block) marked(word string) bool { return slices.Contains(b.words[1:], word) }

// runs reports whether the commands of the block are executed.
func (b block) runs(guest bool, only string) bool {
	special := slices.ContainsFunc(b.words[1:], func(w string) bool { return strings.HasPrefix(w, "only-") })
	switch {
	case only != "":
		return b.marked("only-" + only)
	case special, b.marked("not-run"), b.marked("guest") && !guest, b.marked("no-guest") && guest:
		return false
	}
	return true
}

func run(w io.Writer, page string, guest bool, only string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	blocks, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	out := bufio.NewWriter(w)
	out.WriteString(prelude)
	for _, b := range blocks {
		if b.language() == "yaml" && len(b.words) == 2 && !b.marked("not-run") {
			fmt.Fprintf(out, "mkdir -p \"$(dirname %[1]s)\"\ncat >%[1]s <<'END OF FILE'\n%[2]s\nEND OF FILE\n", quote(b.words[1]), strings.Join(b.text, "\n"))
		}
	}
	for _, b := range blocks {
		where := fmt.Sprintf("%s:%d", page, b.line)
		switch {
		case !b.runs(guest, only):
		case b.language() == "sh":
			writeStep(out, where, strings.Join(b.text, "\n"), nil)
		case b.language() == "console":
			if err := writeConsole(out, where, b.text); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

func parse(text string) ([]block, error) {
	var blocks []block
	var open *block
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{line: i + 2, words: strings.Fields(fence)}
		case isFence:
			if len(open.words) > 0 {
				blocks = append(blocks, *open)
			}
			open = nil
		case open != nil:
			open.text = append(open.text, line)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("the code block of line %d has no end", open.line)
	}
	return blocks, nil
}

// writeConsole writes a step for each command, with the expected lines after it.
func writeConsole(w io.Writer, where string, lines []string) error {
	for len(lines) > 0 {
		command, ok := strings.CutPrefix(lines[0], "$ ")
		if !ok {
			return fmt.Errorf("%s: no command before %q", where, lines[0])
		}
		end := 1
		for end < len(lines) && !strings.HasPrefix(lines[end], "$ ") {
			end++
		}
		writeStep(w, where, command, lines[1:end])
		lines = lines[end:]
	}
	return nil
}

func writeStep(w io.Writer, where, command string, want []string) {
	fmt.Fprintf(w, "step=%s\nprintf '\\n## %%s\\n%%s\\n' \"$step\" %s\n{ eval %s; } >\"$out\" 2>&1 </dev/null\ncat \"$out\"\nexpect <<'END OF OUTPUT'\n",
		quote(where), quote(command), quote(command))
	for _, line := range want {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w, "END OF OUTPUT")
}

// quote quotes a text, so that it is one word for the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// prelude makes the script end at the first command that fails, and print that command.
const prelude = `set -euo pipefail
out=$(mktemp)
step=start
ended() {
	code=$?
	jobs=$(jobs -p)
	[[ -z $jobs ]] || kill $jobs 2>/dev/null || true
	wait || true
	if ((code)); then
		printf '\n%s: failed with code %s\n' "$step" "$code"
		cat "$out"
	fi
	rm -f -- "$out"
	exit "$code"
}
trap ended EXIT

# settled replaces values that differ between runs, and the namespace of the test with default.
settled() {
	sed -E "s#\b${PODRUN_NAMESPACE:-default}/#default/#g"';s/[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+/ADDRESS/g; s/\b([0-9.]+(h|ms|m|s))+\b/TIME/g; s/[[:blank:]]+/ /g; s/ $//' "$@"
}

# expect searches the output for each line of stdin, a pattern, in this order.
expect() {
	local want line pattern
	exec 3< <(settled "$out")
	while IFS= read -r want; do
		[[ -n $want ]] || continue
		pattern=$(sed -E 's/[][?\\]/\\&/g' <<<"$want")
		while :; do
			if ! IFS= read -r line <&3; then
				printf '%s: no line of the output matches: %s\n' "$step" "$want"
				return 1
			fi
			# shellcheck disable=SC2053 # a pattern
			[[ $line == $pattern ]] && break
		done
	done < <(settled)
	exec 3<&-
}

`
