// Command prose prints a random sample of podrun's sentences for a reader to judge. Half of it comes from text
// that users see (messages, help, documents), and half from comments.
//
//	go run ./hack/prose -n 200 -seed 7
//
// It prints the seed, so that a sample can be repeated. CONTRIBUTING.md states how many sentences a reader may
// mark.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// sentence is one sentence, with its file and line.
type sentence struct {
	file string
	line int
	text string
}

func main() {
	n := flag.Int("n", 200, "the number of sentences; half of them are visible to users")
	seed := flag.Uint64("seed", 1, "the seed of the sample")
	root := flag.String("C", ".", "the root directory of the repository")
	flag.Parse()
	visible, comments, err := collect(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
	fmt.Printf("seed %d: %d of %d user-visible sentences, %d of %d in comments\n",
		*seed, min(*n/2, len(visible)), len(visible), min(*n-*n/2, len(comments)), len(comments))
	random := rand.New(rand.NewPCG(*seed, 0))
	show("user-visible", draw(random, visible, *n/2))
	show("comments", draw(random, comments, *n-*n/2))
}

// collect returns all sentences of the Go files and the Markdown documents below root.
func collect(root string) (visible, comments []sentence, err error) {
	err = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "bin"):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".go":
			strs, coms, err := ofGo(path, name)
			if err != nil {
				return err
			}
			visible, comments = append(visible, strs...), append(comments, coms...)
		case ".md":
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			visible = append(visible, ofMarkdown(string(data), name)...)
		}
		return nil
	})
	return visible, comments, err
}

// draw returns n sentences in random order. If there are fewer, it returns all.
func draw(random *rand.Rand, from []sentence, n int) []sentence {
	out := make([]sentence, 0, n)
	for _, i := range random.Perm(len(from))[:min(n, len(from))] {
		out = append(out, from[i])
	}
	return out
}

func show(title string, sample []sentence) {
	fmt.Printf("\n%s\n", title)
	for i, s := range sample {
		fmt.Printf("%3d %s:%d: %s\n", i+1, s.file, s.line, s.text)
	}
}
