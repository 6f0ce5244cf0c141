package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// globalFlags is the text that replaces the list of global flags, because the list would fill
// most of every page.
const globalFlags = "The global flags, which all commands accept, are listed in %s."

// visitAll calls do for the commands of all programs. isRoot is true for the root command of podrun, the first
// program, whose page lists the global flags.
func visitAll(programs []*cobra.Command, do func(c *cobra.Command, isRoot bool) error) error {
	for i, p := range programs {
		if err := visit(p, func(c *cobra.Command) error { return do(c, i == 0 && c == p) }); err != nil {
			return err
		}
	}
	return nil
}

// visit calls do for a command and its visible subcommands, except help topics.
func visit(c *cobra.Command, do func(*cobra.Command) error) error {
	if err := do(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := visit(sub, do); err != nil {
			return err
		}
	}
	return nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// markdownPages returns the pages of docs/commands by file name.
func markdownPages(programs ...*cobra.Command) (map[string][]byte, error) {
	pages := map[string][]byte{}
	err := visitAll(programs, func(c *cobra.Command, isRoot bool) error {
		if !isRoot {
			hideGlobalFlags(c)
		}
		c.Long = marked(c.Long)
		var b bytes.Buffer
		link := func(page string) string { return strings.ReplaceAll(page, "_", "-") }
		if err := doc.GenMarkdownCustom(c, &b, link); err != nil {
			return err
		}
		if !isRoot {
			fmt.Fprintf(&b, "\n"+globalFlags+"\n", "[podrun](podrun.md)")
		}
		pages[pageName(c)+".md"] = b.Bytes()
		return nil
	})
	return pages, err
}

// manPages returns the man pages by file name. They contain no date, so that they are reproducible.
func manPages(docs string, programs ...*cobra.Command) (map[string][]byte, error) {
	pages := map[string][]byte{}
	err := visitAll(programs, func(c *cobra.Command, isRoot bool) error {
		if !isRoot {
			hideGlobalFlags(c)
		}
		c.Long = marked(c.Long)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = escaped(f.Usage) }) // the usage is code in Markdown, but text in a man page
		var b bytes.Buffer
		header := &doc.GenManHeader{Section: "1", Source: "podrun", Manual: "podrun manual", Date: &time.Time{}}
		if err := doc.GenMan(c, header, &b); err != nil {
			return err
		}
		if !isRoot {
			fmt.Fprintf(&b, ".SH GLOBAL FLAGS\n"+globalFlags+"\n", "\\fBpodrun\\fP(1)")
		}
		pages[pageName(c)+".1"] = undated(b.Bytes())
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, page := range []struct{ source, name, section, about string }{
		{"settings.md", "podrun-config", "5", "the settings file of podrun"},
		{"exit-codes.md", "podrun-exit-codes", "7", "the exit codes of podrun"},
	} {
		text, err := os.ReadFile(filepath.Join(docs, page.source))
		if err != nil {
			return nil, err
		}
		pages[page.name+"."+page.section] = manOf(string(text), page.name, page.section, page.about)
	}
	return pages, nil
}

// hideGlobalFlags removes the global flags from the page of a command.
func hideGlobalFlags(c *cobra.Command) {
	c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
}

// marked converts a help text to Markdown. Lines that are indented by two spaces become code,
// and angle brackets are escaped.
func marked(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			b.WriteString("  " + line)
			continue
		}
		b.WriteString(escaped(line))
	}
	return b.String()
}

// escaped escapes angle brackets, which are HTML in Markdown, because md2man drops HTML.
func escaped(text string) string { return strings.ReplaceAll(text, "<", "\\<") }

var (
	title       = regexp.MustCompile(`(?m)\A# .*\n`)
	subtitle    = regexp.MustCompile(`(?m)^## (.*)$`)
	link        = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	comment     = regexp.MustCompile(`(?m)^<!--.*-->\n`)
	table       = regexp.MustCompile(`(?m)(^\|.*\n)+`)
	titleLine   = regexp.MustCompile(`(?m)^\.TH .*$`)
	quotedDates = regexp.MustCompile(`"Jan 0001"`)
)

// manOf converts a page of docs to a man page.
func manOf(text, name, section, about string) []byte {
	text = title.ReplaceAllString(text, "")
	text = comment.ReplaceAllString(text, "")
	text = table.ReplaceAllStringFunc(text, list)
	text = link.ReplaceAllString(text, "$1")
	text = subtitle.ReplaceAllStringFunc(text, func(s string) string { return "# " + strings.ToUpper(strings.TrimPrefix(s, "## ")) })
	head := fmt.Sprintf("%% \"%s\" \"%s\" \"Jan 0001\" \"podrun\" \"podrun manual\"\n# NAME\n%s - %s\n\n# DESCRIPTION\n", strings.ToUpper(name), section, name, about)
	return undated(md2man.Render([]byte(head + text)))
}

// list converts a table, which may be wider than a terminal, to a list. Each row becomes a term,
// followed by the other cells of the row. If the first column has no name, the name of its column
// precedes each cell.
func list(table string) string {
	var b strings.Builder
	var columns []string
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|")
		for j := range cells {
			cells[j] = strings.ReplaceAll(strings.TrimSpace(cells[j]), "\x00", "|")
		}
		switch i {
		case 0:
			columns = cells
			continue
		// Row 1 is the separator below the headings.
		case 1:
			continue
		}
		var rest []string
		for j, cell := range cells[1:] {
			if columns[0] == "" {
				cell = columns[j+1] + ": " + cell
			}
			if cell != "" {
				rest = append(rest, cell)
			}
		}
		fmt.Fprintf(&b, "%s\n: %s\n\n", cells[0], strings.Join(rest, "; "))
	}
	return b.String()
}

// undated removes the date that cobra and md2man add to the title of a page.
func undated(page []byte) []byte {
	return titleLine.ReplaceAllFunc(page, func(line []byte) []byte { return quotedDates.ReplaceAll(line, []byte(`""`)) })
}
