package cmd

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

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/change"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// newEdit returns `podrun edit`.
func newEdit(a *app) *cobra.Command {
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
			if err := errors.Join(f.checkFlags(a), f.check(c, given)); err != nil {
				return err
			}
			return a.withPods(c, f, false, func(_ context.Context, r *renderer, e *run.Node, pods []run.Known) error {
				if len(f.perWorkload(pods)) > 1 {
					return problem.UsageError(fmt.Errorf("%d pods are selected", len(pods)), "edit one pod at a time, or use 'podrun patch' for several")
				}
				return a.edit(c.Context(), f, r, e, pods)
			})
		},
	}
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

// edit opens the editor with the definition of the first pod until the result is valid or unchanged, and
// applies the change to all pods, which are replicas of one workload.
func (a *app) edit(ctx context.Context, f *changeFlags, r *renderer, e *run.Node, pods []run.Known) error {
	original, err := editedText(e, pods[0])
	if err != nil {
		return err
	}
	editor := &editing{}
	text := append([]byte(editHead), original...)
	var rejected error // why podrun rejected the previous content
	for {
		edited, err := editor.open(ctx, a, text)
		switch {
		case err != nil:
			return editor.keep(err)
		case editor.failed && bytes.Equal(withoutComments(edited), withoutComments(text)):
			problem.Each(rejected, func(each error) { printError(a.streams.Err, each) })
			return editor.keep(errors.New("edit cancelled, no valid changes were saved"))
		case bytes.Equal(withoutComments(edited), withoutComments(original)):
			editor.remove()
			r.note("Edit cancelled, no changes made.")
			return nil
		case len(bytes.TrimSpace(withoutComments(edited))) == 0:
			editor.remove()
			r.note("Edit cancelled, saved file was empty.")
			return nil
		}
		d, err := editChange(original, edited)
		if err == nil {
			err = a.checkEdit(ctx, f, r, e, pods[0], d)
		}
		if err == nil {
			if err := a.changePods(ctx, f, r, e, pods, d); err != nil {
				return editor.keep(err)
			}
			editor.remove()
			return nil
		}
		if ctx.Err() != nil {
			return editor.keep(err)
		}
		editor.failed, rejected = true, err
		text = []byte(editHead + errorComment(err) + withoutHead(edited))
	}
}

// editedText returns the definition of a pod as YAML.
func editedText(e *run.Node, k run.Known) ([]byte, error) {
	c, err := lookup.StoredCheckpoint(e, k.ID)
	if err == nil && c == nil {
		err = inPod(k.ID, errors.New("its checkpoint was not found"))
	}
	if err != nil {
		return nil, err
	}
	data, err := generate.Manifest(manifest.Editable(c.Pod))
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(data)
}

// editChange returns the change from one text to another.
func editChange(original, edited []byte) (definitionChange, error) {
	var was, is json.RawMessage
	if err := manifest.Decode(input.Source{Name: "the original", Data: original}, &was); err != nil {
		return definitionChange{}, err
	}
	if err := manifest.Decode(input.Source{Name: "the edited file", Data: edited}, &is); err != nil {
		return definitionChange{}, err
	}
	patch, err := change.Edited(was, is)
	if err != nil {
		return definitionChange{}, err
	}
	return definitionChange{
		change: func(pod *corev1.Pod, _ *manifest.Checkpoint) ([]byte, *manifest.Objects, error) {
			after, err := patched(pod, patch)
			return after, nil, err
		},
		done: always("edited"), none: "skipped",
	}, nil
}

// patched returns a definition with a strategic merge patch.
func patched(pod *corev1.Pod, patch []byte) ([]byte, error) {
	before, err := generate.Manifest(pod)
	if err != nil {
		return nil, err
	}
	return change.Patch(before, change.Strategic, patch)
}

// checkEdit returns an error if the changed definition is invalid, or this host cannot run it.
func (a *app) checkEdit(ctx context.Context, f *changeFlags, r *renderer, e *run.Node, k run.Known, d definitionChange) error {
	sources, err := f.sources(ctx)
	if err != nil {
		return err
	}
	objects, _, err := a.preview(e, k, f, d, sources)
	if err != nil || objects == nil {
		return inPod(k.ID, err)
	}
	_, problems, err := e.Prepare(ctx, objects, run.PrepareOptions{AllowKubelet: a.allowKubelet})
	if err != nil {
		return err
	}
	return problem.Refuse(problem.Refused, problems)
}

// errorComment returns an error as comment lines, with its hint.
func errorComment(err error) string {
	var b strings.Builder
	problem.Each(err, func(each error) {
		var text strings.Builder
		printError(&text, each)
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

// editing is a file in an editor.
type editing struct {
	path   string
	failed bool // the file was opened again because of an error
}

// maxEdited is the maximum size of an edited file, in bytes.
const maxEdited = 3 << 20

// open writes the text to a new temporary file, opens it in the editor, and returns its content. It removes
// the file of the previous call.
func (ed *editing) open(ctx context.Context, a *app, text []byte) ([]byte, error) {
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
	c.Stdin, c.Stdout, c.Stderr = a.raw.In, a.raw.Out, a.raw.Err
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

// keep adds the path of the edited file to the hint of an error.
func (ed *editing) keep(err error) error {
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
