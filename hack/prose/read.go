package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// minWords excludes headings, keys and formats, which are not sentences.
const minWords = 4

// ofGo returns the string literals of a Go file that are sentences, unless it is a test, and its comments.
func ofGo(path, name string) (visible, comments []sentence, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(name, "test/") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field: // struct tags
				return n.Tag == nil
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					visible = append(visible, split(text, name, fset.Position(n.Pos()).Line)...)
				}
			}
			return true
		})
	}
	for _, group := range file.Comments {
		comments = append(comments, split(group.Text(), name, fset.Position(group.Pos()).Line)...)
	}
	return visible, comments, nil
}

// ofMarkdown returns the sentences of a document, without its code blocks.
func ofMarkdown(text, name string) (out []sentence) {
	code := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if code || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") {
			continue
		}
		for _, cell := range strings.Split(line, " | ") {
			out = append(out, split(cell, name, i+1)...)
		}
	}
	return out
}

// sentenceEnd matches the end of a sentence that is followed by another sentence.
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
