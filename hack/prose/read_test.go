package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func texts(sentences []sentence) (out []string) {
	for _, s := range sentences {
		out = append(out, s.text)
	}
	return out
}

// TestCollect checks that collect finds the sentences of comments, messages and documents.
// Concatenated strings and wrapped lines must be one sentence. collect must not find code blocks,
// struct tags, keys, and the messages of tests.
func TestCollect(t *testing.T) {
	root := t.TempDir()
	for name, data := range map[string]string{
		"a.go":              "// Package a has two sentences here. Here is the second one.\npackage a\n\nconst m = \"remove the pod \" + name + \" first\"\n\ntype t struct {\n\tf int `json:\"a b c d\"`\n}\n",
		"cri/critest/a.go":  "package critest\n\nconst w = \"this text is not visible\"\n",
		"a_test.go":         "package a\n\nconst w = \"this text is not visible\"\n",
		"b.md":              "# A heading\n\nRun this command\nas root.\n\n```\nthis is a code block\n```\n\n| one cell of a table | another cell of the table |\n",
		"testdata/x/doc.md": "Test data is not a document.\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	visible, comments, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := texts(comments), []string{"Package a has two sentences here.", "Here is the second one."}; !slices.Equal(got, want) {
		t.Errorf("comments: got %q, want %q", got, want)
	}
	if got, want := texts(visible), []string{"remove the pod %s first", "Run this command as root.", "| one cell of a table", "another cell of the table |"}; !slices.Equal(got, want) {
		t.Errorf("user-visible: got %q, want %q", got, want)
	}
}
