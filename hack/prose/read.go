package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minWords is the minimum number of words of a sentence. It excludes headings, keys and
// formats, which are not sentences.
const minWords = 4

// testPackages are packages that only tests use. Users do not see the messages of these
// packages.
var testPackages = []string{"test/", "cri/critest/", "internal/treetest/"}

// isTest reports whether a Go file is a test, or belongs to a package that only tests use.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") ||
		slices.ContainsFunc(testPackages, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// ofGo returns the comments of a Go file. Unless the file is a test, it also returns the strings
// that are sentences.
func ofGo(path, name string) (visible, comments []sentence, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	if !isTest(name) {
		visible = stringsOf(file, func(pos token.Pos, text string) []sentence {
			return split(text, name, fset.Position(pos).Line)
		})
	}
	for _, group := range file.Comments {
		comments = append(comments, split(group.Text(), name, fset.Position(group.Pos()).Line)...)
	}
	return visible, comments, nil
}

// stringsOf returns the sentences of the string literals in a syntax tree. If the code
// concatenates literals, it joins them, with %s in place of other operands. It omits struct tags.
func stringsOf(tree ast.Node, split func(pos token.Pos, text string) []sentence) (out []sentence) {
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			return n.Tag == nil
		case *ast.BinaryExpr:
			text, literals, others := concatenated(n)
			if literals == 0 {
				return true
			}
			out = append(out, split(n.Pos(), text)...)
			for _, other := range others {
				out = append(out, stringsOf(other, split)...)
			}
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				out = append(out, split(n.Pos(), text)...)
			}
		}
		return true
	})
	return out
}

// concatenated returns the text of an expression, with %s in place of the operands that are not
// literals. It also returns the number of literals, and the other operands.
func concatenated(e ast.Expr) (text string, literals int, others []ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			left, n, more := concatenated(e.X)
			right, m, rest := concatenated(e.Y)
			return left + right, n + m, append(more, rest...)
		}
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return s, 1, nil
		}
	}
	return "%s", 0, []ast.Expr{e}
}

// block matches the beginning of a Markdown line that does not continue the previous line.
var block = regexp.MustCompile(`^(#|\||<|>|[-*] |\d+\. )`)

// ofMarkdown returns the sentences of a document, without its code blocks. It joins the lines of a
// paragraph, and treats each cell of a table as a paragraph.
func ofMarkdown(text, name string) (out []sentence) {
	code, paragraph, begin := false, "", 0
	flush := func() {
		for _, cell := range strings.Split(paragraph, " | ") {
			out = append(out, split(cell, name, begin)...)
		}
		paragraph = ""
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
			flush()
		case code, strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"), strings.TrimSpace(line) == "":
			flush()
		case paragraph != "" && !block.MatchString(line):
			paragraph += " " + line
		default:
			flush()
			paragraph, begin = line, i+1
		}
	}
	flush()
	return out
}

// sentenceEnd matches the end of a sentence, if another sentence follows.
var sentenceEnd = regexp.MustCompile(`[.!?]\s+`)

// split returns the sentences of a paragraph that have at least minWords words.
func split(text, name string, line int) (out []sentence) {
	for _, paragraph := range strings.Split(text, "\n\n") {
		flat := strings.Join(strings.Fields(paragraph), " ")
		for _, s := range strings.Split(sentenceEnd.ReplaceAllString(flat, "$0\n"), "\n") {
			if s = strings.TrimSpace(s); len(strings.Fields(s)) >= minWords {
				out = append(out, sentence{file: name, line: line, text: s})
			}
		}
	}
	return out
}
