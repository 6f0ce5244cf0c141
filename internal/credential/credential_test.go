package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		key, credential string
		data            map[string][]byte
		want            string
	}{
		"valid":           {"password", "podrun.shop.db-password", nil, ""},
		"a value, too":    {"password", "x", map[string][]byte{"password": nil}, "also has a value"},
		"no key":          {"", "x", nil, "not a valid key"},
		"dots":            {"..", "x", nil, "not a valid key"},
		"no name":         {"password", "", nil, "not the name"},
		"a path":          {"password", "../../etc/shadow", nil, "not the name"},
		"an absolute one": {"password", "/etc/shadow", nil, "not the name"},
		"an option":       {"password", "--help", nil, "not the name"},
		"hidden":          {"password", ".x", nil, "not the name"},
		"a space":         {"password", "a b", nil, "not the name"},
		"NUL":             {"password", "a\x00", nil, "not the name"},
		"long":            {"password", strings.Repeat("a", 256), nil, "not the name"},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation + c.key: c.credential, "podrun.dev/other": "x"}}, Data: c.data}
		errs := Validate(s)
		if len(errs) > 0 != (c.want != "") || len(errs) > 0 && !strings.Contains(errs.ToAggregate().Error(), c.want) {
			t.Errorf("%s: %v", name, errs)
		}
		if found := Of(s); len(found) != 1 || found[c.key] != c.credential {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestPermitted(t *testing.T) {
	for name, want := range map[string]bool{"podrun.shop.db": true, "podrun.shop2.db": false, "podrun.shop": false, "db": false, "podrun.shop.": true} {
		if Permitted("shop", name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}

// TestDecrypt runs programs in the place of systemd-creds.
func TestDecrypt(t *testing.T) {
	for name, c := range map[string]struct {
		script, credential, want string // want is a part of the error, or the value after "="
	}{
		"the value":      {`[ "$1 $2 $3 $5" = "decrypt --name=db -- -" ] && cat "$4"`, "db", "=sealed"},
		"empty":          {"exit 0", "db", "="},
		"refused":        {"echo 'Credential name does not match.' >&2; echo s3cret; exit 1", "db", "systemd-creds: exit status 1: Credential name does not match."},
		"too large":      {"head -c 1048577 /dev/zero", "db", "larger than 1 MiB"},
		"not sealed":     {"exit 0", "other", "seal it with 'systemd-creds encrypt --name=other"},
		"a link":         {"exit 0", "link", "not a regular file"},
		"an option":      {"exit 0", "--help", "not a valid name"},
		"no environment": {`echo -n "$SECRET"`, "db", "="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SECRET", "x")
			dir := t.TempDir()
			program := filepath.Join(dir, "systemd-creds")
			err := errors.Join(os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755), os.WriteFile(filepath.Join(dir, "db"), []byte("sealed"), 0o600), os.Symlink("db", filepath.Join(dir, "link")))
			if err != nil {
				t.Fatal(err)
			}
			value, err := Store{dir, program}.Decrypt(t.Context(), c.credential)
			if want, ok := strings.CutPrefix(c.want, "="); ok {
				if err != nil || string(value) != want {
					t.Errorf("%q, %v", value, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Store{dir, "podrun-no-such-program"}).Decrypt(t.Context(), "db"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("interrupted"))
	if _, err := (Store{dir, "true"}).Decrypt(ctx, "db"); err == nil || err.Error() != "interrupted" {
		t.Error(err)
	}
}

// FuzzIsName checks that a name is one component of a path, and no option.
func FuzzIsName(f *testing.F) {
	f.Add("db-password")
	f.Fuzz(func(t *testing.T, name string) {
		if IsName(name) && (filepath.Base(name) != name || name == ".." || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "\x00\n/ ")) {
			t.Errorf("%q", name)
		}
	})
}
