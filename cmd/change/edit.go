package change

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/change"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
)

// NewEdit returns `podrun edit`.
func NewEdit(a *cli.App) *cobra.Command {
	f := &changeFlags{}
	c := &cobra.Command{
		Use:   "edit POD",
		Short: "Edit the definition of a pod in an editor",
		Long: `Edit the definition of a pod in the editor that KUBE_EDITOR or EDITOR names, or in vi.
If the result is invalid, or this host cannot run it, the editor opens again with the
error. If you do not save the file, nothing changes.
` + changeNote,
		Example: `  podrun edit web
  KUBE_EDITOR=nano podrun edit web`,
		RunE: func(c *cobra.Command, given []string) error {
			editor := &editing{streams: a.Streams, raw: a.Raw, flags: f}
			return editor.end(runChange(a, c, f, given, "skipped", run.ChangeInput{Decide: editor.decide}))
		},
	}
	f.required = true
	f.add(a, c)
	c.Flags().StringVar(&f.validate, "validate", string(manifest.Strict), "how to handle unknown and duplicate fields: strict, warn or ignore")
	return c
}

// editHead begins a file that is edited.
const editHead = `# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
`

// editing is a definition in an editor.
type editing struct {
	streams, raw cli.Streams // see cli.App
	flags        *changeFlags
	original     []byte // the definition before the change
	edited       []byte // the last content
	path         string // of the file in the editor; "" if there is none
	failed       bool   // the file was opened again because of an error
}

// decide is run.ChangeInput.Decide. It opens the editor until the result can be read.
func (ed *editing) decide(ctx context.Context, current *corev1.Pod, rejected error) (run.Define, error) {
	if ed.original == nil {
		data, err := generate.Manifest(current)
		if err != nil {
			return nil, err
		}
		if ed.original, err = yaml.JSONToYAML(data); err != nil {
			return nil, err
		}
	}
	for {
		text := append([]byte(editHead), ed.original...)
		if rejected != nil {
			ed.failed = true
			text = []byte(editHead + errorComment(rejected) + withoutHead(ed.edited))
		}
		var err error
		ed.edited, err = ed.open(ctx, text)
		content := withoutComments(ed.edited)
		switch {
		case err != nil:
			return nil, err
		case ed.failed && bytes.Equal(content, withoutComments(text)):
			problem.Each(rejected, func(each error) { cli.PrintError(ed.streams.Err, each) })
			return nil, errors.New("edit cancelled, no valid changes were saved")
		case bytes.Equal(content, withoutComments(ed.original)):
			ed.flags.none = "Edit cancelled, no changes made."
			return nil, nil
		case len(bytes.TrimSpace(content)) == 0:
			ed.flags.none = "Edit cancelled, saved file was empty."
			return nil, nil
		}
		define, err := editedDefinition(ed.original, ed.edited)
		if err == nil || ctx.Err() != nil {
			return define, err
		}
		rejected = err
	}
}

// editedDefinition returns the change from one text to another, as a patch, which each replica can get.
func editedDefinition(original, edited []byte) (run.Define, error) {
	var was, is json.RawMessage
	if err := manifest.Decode(input.Source{Name: "the original", Data: original}, &was); err != nil {
		return nil, err
	}
	if err := manifest.Decode(input.Source{Name: "the edited file", Data: edited}, &is); err != nil {
		return nil, err
	}
	patch, err := change.Edited(was, is)
	return func(now run.Current) (run.Redefinition, error) {
		after, err := change.PatchPod(now.Pod, change.Strategic, patch)
		return run.Redefinition{Manifest: after, Done: "edited"}, err
	}, err
}

// errorComment returns an error as comment lines, with its hint.
func errorComment(err error) string {
	var b strings.Builder
	problem.Each(err, func(each error) {
		var text strings.Builder
		cli.PrintError(&text, each)
		for line := range strings.Lines(text.String()) {
			b.WriteString("# " + strings.TrimPrefix(strings.TrimRight(line, "\n"), "podrun: ") + "\n")
		}
	})
	return b.String() + "#\n"
}

// withoutComments returns a text without the lines that are comments.
func withoutComments(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			out = append(out, line...)
		}
	}
	return out
}

// withoutHead returns a text without the comments at its beginning.
func withoutHead(text []byte) string {
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return string(text)
}

// maxEdited is the maximum size of an edited file, in bytes.
const maxEdited = 3 << 20

// open writes the text to a new temporary file, opens it in the editor, and returns its content. It removes
// the file of the previous call.
func (ed *editing) open(ctx context.Context, text []byte) ([]byte, error) {
	ed.remove()
	file, err := os.CreateTemp("", "podrun-edit-*.yaml") // only this user can read it
	if err != nil {
		return nil, err
	}
	ed.path = file.Name()
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	words := editorCommand(os.Getenv)
	c := exec.CommandContext(ctx, words[0], append(words[1:], ed.path)...)
	c.Stdin = ed.raw.In
	c.Stdout = ed.raw.Out
	c.Stderr = ed.raw.Err
	if err := c.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if _, started := errors.AsType[*exec.ExitError](err); !started && !ed.failed {
			ed.remove() // without changes
		}
		return nil, &problem.Error{Kind: problem.Failed, Object: "editor " + words[0], Err: err, Hint: "set KUBE_EDITOR or EDITOR to another editor"}
	}
	return hostfile.Read(ctx, ed.path, maxEdited)
}

// editorCommand returns the command of the editor. As in kubectl, the shell runs a command with
// quotes, with the file as its argument.
func editorCommand(getenv func(string) string) []string {
	editor := "vi"
	for _, name := range []string{"KUBE_EDITOR", "EDITOR"} {
		if value := strings.TrimSpace(getenv(name)); value != "" {
			editor = value
			break
		}
	}
	if !strings.ContainsAny(editor, "\"'\\") {
		return strings.Fields(editor)
	}
	return []string{"/bin/sh", "-c", editor + ` "$1"`, "editor"}
}

// remove removes the edited file, if it still exists.
func (ed *editing) remove() {
	if ed.path != "" {
		_ = os.Remove(ed.path)
		ed.path = ""
	}
}

// end removes the edited file or, after an error, adds its path to the hint.
func (ed *editing) end(err error) error {
	if err == nil {
		ed.remove()
	}
	if ed.path == "" {
		return err
	}
	kept := fmt.Sprintf("a copy of your changes has been stored to %s", ed.path)
	e, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return &problem.Error{Kind: problem.Failed, Err: err, Hint: kept}
	}
	with := *e
	if with.Hint != "" {
		kept = with.Hint + "; " + kept
	}
	with.Hint = kept
	return &with
}
