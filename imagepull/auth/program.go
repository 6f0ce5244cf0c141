package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/output"
)

const (
	// helperTimeout limits the run time of a credential helper or provider plugin. It is the
	// kubelet's value for plugins.
	helperTimeout = time.Minute
	// helperOutput is the maximum size of a helper's output, in bytes.
	helperOutput = 1 << 20
	// noCredentials is the message of a helper that has no credentials
	// (docker-credential-helpers, credentials/error.go).
	noCredentials = "credentials not found in native keychain"
	// tokenUser is the username with which a helper marks its secret as an identity token.
	tokenUser = "<token>"
)

// askHelper returns the credentials that docker-credential-<name> has for a registry. If the helper
// has no credentials for it, askHelper returns nil. The error does not contain the program's
// output.
func askHelper(ctx context.Context, name, server string) (*runtimeapi.AuthConfig, error) {
	if strings.ContainsAny(name, "/\\") {
		return nil, fmt.Errorf("%q is not the name of a credential helper", name)
	}
	program := "docker-credential-" + name
	out, err := runHelper(ctx, program, []string{"get"}, nil, []byte(server+"\n"))
	if strings.TrimSpace(string(out)) == noCredentials {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var answer struct{ Username, Secret string }
	if json.Unmarshal(out, &answer) != nil {
		return nil, fmt.Errorf("%s: its output is not the JSON of a credential helper", program)
	}
	switch {
	case answer.Username == tokenUser:
		return &runtimeapi.AuthConfig{IdentityToken: answer.Secret}, nil
	case answer.Username == "" && answer.Secret == "":
		return nil, nil
	}
	return &runtimeapi.AuthConfig{Username: answer.Username, Password: answer.Secret}, nil
}

// runHelper runs a credential program and returns its output. The error describes how the
// program failed, without its output.
func runHelper(ctx context.Context, program string, args, env []string, in []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	c := exec.CommandContext(inner, program, args...)
	c.Env, c.Stdin = append(os.Environ(), env...), bytes.NewReader(in)
	c.WaitDelay = time.Second
	out := output.Head{Limit: helperOutput, OnCut: stop}
	c.Stdout = &out
	err := c.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: no output within %s", program, helperTimeout)
	case out.Cut():
		return nil, fmt.Errorf("%s: its output is longer than %d bytes", program, helperOutput)
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s: is not in $PATH", program)
	case err != nil:
		return out.Bytes(), fmt.Errorf("%s: %w", program, err)
	}
	return out.Bytes(), nil
}
