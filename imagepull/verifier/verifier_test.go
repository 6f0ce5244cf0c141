package verifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/ring"
)

var image = Image{Name: "registry.example/web:1", MediaType: "application/vnd.oci.image.index.v1+json", Digest: "sha256:0123", Size: 42}

// directory writes programs, scripts for /bin/sh, and returns their directory.
func directory(t *testing.T, programs map[string]string) string {
	t.Helper()
	ring.RequireRoot(t)
	dir := filepath.Join(t.TempDir(), "image-verifier.d")
	do(t, os.Mkdir(dir, 0o755))
	for name, script := range programs {
		write(t, filepath.Join(dir, name), script, 0o755)
	}
	return dir
}

func write(t *testing.T, path, script string, mode os.FileMode) {
	t.Helper()
	do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), mode), os.Chmod(path, mode))
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, dir string) Programs {
	t.Helper()
	p, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFindDenies checks each state of the directory in which podrun must deny all images.
func TestFindDenies(t *testing.T) {
	many := map[string]string{}
	for i := range maxPrograms + 1 {
		many[fmt.Sprint("v", i)] = "exit 0"
	}
	one := map[string]string{"check": "exit 0"}
	for name, c := range map[string]struct {
		programs map[string]string
		change   func(dir string) error
		want     string
	}{
		"no directory":         {one, os.RemoveAll, "no such file"},
		"no programs":          {nil, nil, "contains no image verifiers"},
		"too many":             {many, nil, "more than 16"},
		"a file":               {one, func(d string) error { return errors.Join(os.RemoveAll(d), os.WriteFile(d, nil, 0o755)) }, "is not a directory"},
		"a user's program":     {one, func(d string) error { return os.Chown(d+"/check", 1234, 0) }, "belongs to user 1234"},
		"a user's directory":   {one, func(d string) error { return os.Chown(d, 1234, 0) }, "belongs to user 1234"},
		"a user's parent":      {one, func(d string) error { return os.Chown(filepath.Dir(d), 1234, 0) }, "belongs to user 1234"},
		"a group's program":    {one, func(d string) error { return os.Chmod(d+"/check", 0o775) }, "can be changed"},
		"every user's program": {one, func(d string) error { return os.Chmod(d+"/check", 0o757) }, "can be changed"},
		"a group's directory":  {one, func(d string) error { return os.Chmod(d, 0o775) }, "can be changed"},
		"a group's parent":     {one, func(d string) error { return os.Chmod(filepath.Dir(d), 0o775) }, "can be changed"},
		"not executable":       {one, func(d string) error { return os.Chmod(d+"/check", 0o644) }, "is not executable"},
		"a further file":       {one, func(d string) error { return os.WriteFile(d+"/README", nil, 0o644) }, "is not executable"},
		"a link":               {one, func(d string) error { return os.Symlink("/bin/true", d+"/true") }, "not a regular file"},
		"a dangling link":      {one, func(d string) error { return os.Symlink("/none", d+"/none") }, "not a regular file"},
		"a subdirectory":       {one, func(d string) error { return os.Mkdir(d+"/more", 0o755) }, "not a regular file"},
		"a FIFO":               {one, func(d string) error { return unix.Mkfifo(d+"/fifo", 0o755) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, c.programs)
			if c.change != nil {
				do(t, c.change(dir))
			}
			p, err := Find(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err := p.Verify(t.Context(), image); err == nil {
				t.Error("programs that could not be found accept an image")
			}
		})
	}
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[string]string
		want     string // a part of the error; "" if the image is accepted
	}{
		"all accept":       {map[string]string{"a": "exit 0", "b": "exit 0"}, ""},
		"the last denies":  {map[string]string{"a": "exit 0", "b": "echo no signature; exit 1"}, "image verifier b: denied (exit status 1): no signature"},
		"the first denies": {map[string]string{"a": "echo 'two\nlines' >&2; exit 3", "b": "exit 0"}, "image verifier a: denied (exit status 3): two lines"},
		"a crash":          {map[string]string{"a": "kill -9 $$"}, "denied (signal: killed)"},
		"no interpreter":   {map[string]string{"a": "exec /none"}, "denied (exit status 127)"},
		"output":           {map[string]string{"a": "yes | head -c 1000000; exit 1"}, "y y y"},
		"a child stays":    {map[string]string{"a": "sleep 1000 & exit 0"}, "did not end"},
		"arguments and input": {map[string]string{"a": `[ "$*" = "-name registry.example/web:1 -digest sha256:0123 -stdin-media-type application/vnd.oci.descriptor.v1+json" ] &&
			[ "$(cat)" = '{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:0123","size":42}' ]`}, ""},
		"environment": {map[string]string{"a": `[ "$HOME$LD_PRELOAD$SECRET" = /root ] && [ "$HTTPS_PROXY" = http://proxy.example ]`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SECRET", "x")
			t.Setenv("HTTPS_PROXY", "http://proxy.example")
			err := find(t, directory(t, c.programs)).Verify(t.Context(), image)
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || len(err.Error()) > 2*maxReason) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	p := find(t, directory(t, map[string]string{"a": "exit 0"}))
	for _, i := range []Image{{Name: "x"}, {Digest: "x"}} {
		if err := p.Verify(t.Context(), i); err == nil {
			t.Errorf("accepted %+v", i)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the command was interrupted"))
	if err := p.Verify(ctx, image); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestVerifyOnce checks when the programs are asked again.
func TestVerifyOnce(t *testing.T) {
	dir := directory(t, nil)
	log := filepath.Join(t.TempDir(), "log")
	accept := fmt.Sprintf("echo asked >>%s", log)
	write(t, filepath.Join(dir, "a"), accept, 0o755)
	l := identity.Layout{RootDir: t.TempDir()}
	other := image
	other.Digest = "sha256:4567"
	renamed := image
	renamed.Name = "registry.example/web:2"
	asked := func(want int, i Image) {
		t.Helper()
		if err := find(t, dir).VerifyOnce(t.Context(), l, i); err != nil {
			t.Error(err)
		}
		if data, _ := os.ReadFile(log); strings.Count(string(data), "asked") != want {
			t.Errorf("asked %d times, want %d", strings.Count(string(data), "asked"), want)
		}
	}
	asked(1, image)
	asked(1, image)
	asked(2, renamed)
	asked(3, other) // the tag was moved
	asked(3, other)
	asked(4, image) // and moved back
	do(t, os.WriteFile(acceptedPath(l, image.Name), []byte("{"), 0o600))
	asked(5, image)
	write(t, filepath.Join(dir, "b"), "exit 0", 0o755)
	asked(6, image)
	write(t, filepath.Join(dir, "b"), "exit 1", 0o755)
	if err := find(t, dir).VerifyOnce(t.Context(), l, image); err == nil {
		t.Error("a program that denies now is not asked")
	}
	do(t, os.Remove(filepath.Join(dir, "b")))
	asked(8, image)
	asked(8, renamed)

	do(t, Forget(l, map[string]bool{renamed.Name: true}))
	if left := acceptedFiles(l); !slices.Equal(left, []string{acceptedPath(l, renamed.Name)}) {
		t.Errorf("records %v", left)
	}
}

// TestMainOfContainerd runs Main as containerd does, in the private directory that Install has written.
func TestMainOfContainerd(t *testing.T) {
	good := map[string]string{"a": "exit 0"}
	args := []string{"-name", image.Name, "-digest", image.Digest, "-stdin-media-type", mediaType}
	in := `{"mediaType":"x","digest":"sha256:0123","size":42,"platform":{"os":"linux"}}`
	for name, c := range map[string]struct {
		programs map[string]string
		change   func(dir, programs string) error
		args     []string
		in       string
		want     string
	}{
		"accepted":           {good, nil, args, in, ""},
		"denied":             {map[string]string{"a": "exit 1"}, nil, args, in, "denied"},
		"no programs":        {nil, nil, args, in, "contains no image verifiers"},
		"no directory":       {good, func(_, programs string) error { return os.RemoveAll(programs) }, args, in, "no such file"},
		"no link":            {good, func(dir, _ string) error { return os.Remove(filepath.Join(filepath.Dir(dir), programsLink)) }, args, in, "no such file"},
		"another descriptor": {good, nil, args, strings.Replace(in, "0123", "4567", 1), "the digest of the descriptor"},
		"no descriptor":      {good, nil, args, "", "descriptor"},
		"a large descriptor": {good, nil, args, `{"mediaType":"` + strings.Repeat("x", maxDescriptor) + `"}`, "descriptor"},
		"no arguments":       {good, nil, nil, in, "unexpected arguments"},
		"more arguments":     {good, nil, append(slices.Clone(args), "x"), in, "unexpected arguments"},
		"an unknown flag":    {good, nil, append(slices.Clone(args), "-force"), in, "not defined"},
		"another input":      {good, nil, append(slices.Clone(args[:4]), "-stdin-media-type", "text/plain"), in, "unexpected arguments"},
		"no name":            {good, nil, args[2:], in, "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			programs := directory(t, c.programs)
			dir := filepath.Join(t.TempDir(), "runtime", "verifier")
			do(t, os.MkdirAll(filepath.Join(dir, "leftover"), 0o755))
			do(t, Install(dir, "/usr/bin/podrun", "/none"), Install(dir, "/usr/bin/podrun", programs))
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 || !Invoked([]string{filepath.Join(dir, entries[0].Name())}) {
				t.Fatalf("%v, %v", entries, err)
			}
			if c.change != nil {
				do(t, c.change(dir, programs))
			}
			var out bytes.Buffer
			code := Main(t.Context(), append([]string{filepath.Join(dir, programName)}, c.args...), strings.NewReader(c.in), &out)
			if (code == 0) != (c.want == "") || !strings.Contains(out.String(), c.want) {
				t.Errorf("code %d: %s", code, out.String())
			}
		})
	}
	if Invoked([]string{"podrun"}) || Invoked(nil) {
		t.Error("podrun itself counts as the verifier")
	}
}

// FuzzParse checks that only an image with a name, a digest and a matching descriptor is verified.
func FuzzParse(f *testing.F) {
	f.Add("a", "sha256:0123", `{"digest":"sha256:0123","size":1}`)
	f.Fuzz(func(t *testing.T, name, digest, in string) {
		i, err := parse([]string{"-name", name, "-digest", digest, "-stdin-media-type", mediaType}, strings.NewReader(in))
		if err == nil && (i.Name != name || i.Digest != digest || !strings.Contains(in, "{") && digest != "") {
			t.Errorf("%q, %q, %q: %+v", name, digest, in, i)
		}
	})
}
